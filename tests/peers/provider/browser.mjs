// A browser that only follows redirects and keeps cookies: node browser.mjs ADDRESS. It prints where it ended if that
// cannot be shown, as a person would paste it.

let address = process.argv[2];
const cookies = new Map();
for (let hop = 0; hop < 20; hop += 1) {
  const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
  let answer;
  try {
    answer = await fetch(address, { redirect: 'manual', headers: cookie ? { cookie } : {} });
  } catch {
    console.log(address);
    process.exit(0);
  }
  for (const line of answer.headers.getSetCookie()) {
    const [name, value] = line.split(';')[0].split('=');
    if (value) cookies.set(name, value);
    else cookies.delete(name);
  }
  const location = answer.headers.get('location');
  if (!location) {
    console.error(answer.status, await answer.text());
    process.exit(answer.ok ? 0 : 1);
  }
  address = new URL(location, address).href;
}
process.exit(1);
