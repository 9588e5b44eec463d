// An OpenID provider, and a real MCP server that takes its tokens. It says its addresses in one line of JSON, then
// obeys one word a line on stdin and answers each with a line; it ends when its stdin ends.
//
//   node provider.mjs [--ttl SECONDS] [--skew SECONDS] [--sse]

import { createServer } from 'node:http';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

const { values: options } = parseArgs({
  options: {
    ttl: { type: 'string', default: '3600' },
    skew: { type: 'string', default: '0' },
    sse: { type: 'boolean', default: false },
  },
});

// Standard output is for answers alone.
const say = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
console.log = console.info = console.warn = console.error;

// The provider's clock is another one than the client's.
const skew = Number(options.skew) * 1000;
const realNow = Date.now;
Date.now = () => realNow() + skew;

const { default: Provider } = await import('oidc-provider');
const { Server } = await import('@modelcontextprotocol/sdk/server/index.js');
const { StreamableHTTPServerTransport } = await import('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { SSEServerTransport } = await import('@modelcontextprotocol/sdk/server/sse.js');
const { CallToolRequestSchema, ListToolsRequestSchema } = await import('@modelcontextprotocol/sdk/types.js');

let ttl = Number(options.ttl);
const counts = { tokens: 0, refreshes: 0, registrations: 0, revocations: 0, calls: 0 };
let held = null;
let mischief = null;
let person = 'ada';

const listening = (server, port = 0) =>
  new Promise((resolve) => server.listen(port, '127.0.0.1', () => resolve(server.address().port)));

// The issuer's address has to be known before the issuer is made.
let answer = (req, res) => res.writeHead(503).end();
let issuerServer = createServer((req, res) => answer(req, res));
const issuerPort = await listening(issuerServer);
const issuer = `http://127.0.0.1:${issuerPort}`;

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: 'machine',
      client_secret: 'machine-secret',
      grant_types: ['client_credentials'],
      redirect_uris: [],
      response_types: [],
      token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  scopes: ['openid', 'offline_access', 'mcp:read', 'mcp:write'],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: async (_ctx, resource) => ({
        scope: 'mcp:read mcp:write',
        audience: resource,
        accessTokenTTL: ttl,
        accessTokenFormat: 'opaque',
      }),
      useGrantedResource: async () => true,
    },
  },
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  findAccount: async (_ctx, id) => ({ accountId: id, claims: async () => ({ sub: id }) }),
  rotateRefreshToken: true,
  issueRefreshToken: async (_ctx, client) => client.grantTypeAllowed('refresh_token'),
  cookies: { keys: ['test'] },
  ttl: { Interaction: 600, Session: 600, Grant: 86400, RefreshToken: 86400, IdToken: 600 },
});
provider.on('server_error', (_ctx, error) => console.error(error));
provider.on('grant.error', (_ctx, error) => console.error(error.message, error.error_detail ?? ''));
provider.on('registration_create.error', (_ctx, error) => console.error(error.message, error.error_description));

// Consent is given at once: the browser of the tests only follows redirects.
async function consent(req, res) {
  const { prompt, params, session } = await provider.interactionDetails(req, res);
  if (prompt.name === 'login') {
    return provider.interactionFinished(req, res, { login: { accountId: person } });
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  if (prompt.details.missingOIDCScope) grant.addOIDCScope(prompt.details.missingOIDCScope.join(' '));
  const resource = [].concat(params.resource ?? [])[0];
  if (params.scope) grant.addOIDCScope(params.scope);
  if (resource) grant.addResourceScope(resource, params.scope ?? '');
  const grantId = await grant.save();
  return provider.interactionFinished(req, res, { consent: { grantId } });
}

const handle = provider.callback();
const read = async (req) => {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  return Buffer.concat(chunks).toString();
};

answer = async (req, res) => {
  const { pathname } = new URL(req.url, issuer);
  if (mischief && pathname.startsWith('/.well-known/')) return misbehave(res);
  if (pathname.startsWith('/interaction/')) return consent(req, res);
  if (pathname === '/reg' && req.method === 'POST') counts.registrations += 1;
  if (pathname === '/token/revocation') counts.revocations += 1;
  if (pathname === '/token') {
    if (held) {
      held.waiting += 1;
      const gone = new Promise((resolve) => res.once('close', () => resolve('gone')));
      // A client that was killed meanwhile has asked for nothing.
      const { free } = held;
      if ((await Promise.race([free, gone])) === 'gone') {
        if (held) held.waiting -= 1;
        return;
      }
    }
    counts.tokens += 1;
    const body = await read(req);
    if (body.includes('grant_type=refresh_token')) counts.refreshes += 1;
    // koa reads what was read already from here.
    req.body = Object.fromEntries(new URLSearchParams(body));
  }
  return handle(req, res);
};

function misbehave(res) {
  const json = (value) => res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
  switch (mischief) {
    case 'redirect':
      return res.writeHead(302, { location: 'http://169.254.169.254/latest/meta-data' }).end();
    case 'redirect-plain':
      return res.writeHead(302, { location: 'http://example.com/metadata' }).end();
    case 'huge':
      res.writeHead(200, { 'content-type': 'application/json' });
      return res.end(`{"issuer":"${'x'.repeat(10_000_000)}"}`);
    case 'issuer':
      return json({ issuer: 'https://honest.example', token_endpoint: `${issuer}/token` });
    case 'plain':
      return json({ issuer, token_endpoint: 'http://example.com/token', authorization_endpoint: `${issuer}/auth` });
    default:
      return res.writeHead(500).end();
  }
}

const tools = [
  { name: 'whoami', inputSchema: { type: 'object' } },
  { name: 'change', inputSchema: { type: 'object' } },
];

function mcpServer(who) {
  const server = new Server({ name: 'protected', version: '1.0.0' }, { capabilities: { tools: {} } });
  server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools }));
  server.setRequestHandler(CallToolRequestSchema, async (request) => {
    counts.calls += 1;
    return { content: [{ type: 'text', text: `${request.params.name} as ${who}` }] };
  });
  return server;
}

const streams = new Map();
const mcp = createServer(async (req, res) => {
  const { pathname, searchParams } = new URL(req.url, base);
  if (pathname === '/.well-known/oauth-protected-resource/mcp') {
    const metadata = { resource, authorization_servers: [issuer], scopes_supported: ['mcp:read'] };
    return res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(metadata));
  }
  if (pathname !== '/mcp') return res.writeHead(404).end();
  const where = `resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
  const refuse = (status, more) =>
    res.writeHead(status, { 'www-authenticate': `Bearer ${more}, ${where}` }).end();
  const bearer = /^Bearer (.+)$/.exec(req.headers.authorization ?? '')?.[1];
  const token =
    bearer && ((await provider.AccessToken.find(bearer)) ?? (await provider.ClientCredentials.find(bearer)));
  if (!token?.isValid || ![].concat(token.aud ?? []).includes(resource)) return refuse(401, 'error="invalid_token"');
  if (token.iat + ttl <= Math.floor(Date.now() / 1000)) return refuse(401, 'error="invalid_token"');
  const scopes = new Set((token.scope ?? '').split(' '));
  const body = req.method === 'POST' ? JSON.parse(await read(req)) : undefined;
  if (body?.method === 'tools/call' && body.params.name === 'change' && !scopes.has('mcp:write')) {
    return refuse(403, 'error="insufficient_scope", scope="mcp:write"');
  }
  const who = token.accountId ?? token.clientId;
  if (options.sse) {
    if (req.method === 'GET') {
      const transport = new SSEServerTransport('/mcp', res);
      streams.set(transport.sessionId, transport);
      return mcpServer(who).connect(transport);
    }
    return streams.get(searchParams.get('sessionId'))?.handlePostMessage(req, res, body);
  }
  const server = mcpServer(who);
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  res.on('close', () => server.close());
  await server.connect(transport);
  await transport.handleRequest(req, res, body);
});
const base = `http://127.0.0.1:${await listening(mcp)}`;
const resource = `${base}/mcp`;

const orders = {
  counts: async () => counts,
  ttl: async (seconds) => void (ttl = Number(seconds)),
  // Who is at the browser from now on.
  person: async (name) => void (person = name),
  mischief: async (what) => void (mischief = what ?? null),
  hold: async () => {
    let free;
    held = { waiting: 0, free: new Promise((resolve) => (free = resolve)) };
    held.release = free;
  },
  waiting: async () => held?.waiting ?? 0,
  free: async () => {
    held?.release();
    held = null;
  },
  // Everything that was granted is worth nothing any more.
  revoke: async (token) => {
    const found = (await provider.RefreshToken.find(token)) ?? (await provider.AccessToken.find(token));
    const grant = await provider.Grant.find(found.grantId);
    await provider.AccessToken.revokeByGrantId(found.grantId);
    await provider.RefreshToken.revokeByGrantId(found.grantId);
    await grant?.destroy();
  },
  down: async () => {
    issuerServer.closeAllConnections();
    await new Promise((resolve) => issuerServer.close(resolve));
  },
  up: async () => {
    issuerServer = createServer((req, res) => answer(req, res));
    await listening(issuerServer, issuerPort);
  },
};

say({ issuer, server: resource });
const lines = createInterface({ input: process.stdin });
for await (const line of lines) {
  const [order, ...words] = line.trim().split(' ');
  const said = await orders[order](...words).catch((error) => ({ error: String(error) }));
  say(said ?? null);
}
process.exit(0);
