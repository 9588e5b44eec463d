# Serves one request on standard input: metadata without a token, MCP with any token.
cr=$(printf '\r')
read -r verb path rest
length=0 token=
while read -r line; do
  line=${line%"$cr"}
  [ -n "$line" ] || break
  case $line in
    [Cc]ontent-[Ll]ength:*) length=${line#*: } ;;
    [Aa]uthorization:\ Bearer\ *) token=${line##* } ;;
    [Hh]ost:*) host=${line#*: } ;;
  esac
done
body=$(busybox head -c "$length")
say() {
  printf 'HTTP/1.1 %s\r\ncontent-type: application/json\r\n%scontent-length: %s\r\nconnection: close\r\n\r\n%s' "$1" "$2" "${#3}" "$3"
  exit
}
where=/.well-known/oauth-protected-resource/mcp
case $path in
  $where) say '200 OK' '' "{\"resource\":\"http://$host/mcp\",\"authorization_servers\":[\"$ISSUER\"],\"scopes_supported\":[\"mcp:read\"]}" ;;
  /mcp) ;;
  *) say '404 Not Found' '' '' ;;
esac
[ -n "$token" ] || say '401 Unauthorized' "www-authenticate: Bearer resource_metadata=\"http://$host$where\"$cr
" ''
[ "$verb" = POST ] || say '405 Method Not Allowed' '' ''
id=$(echo "$body" | busybox sed -n 's/.*"id": *\([0-9]*\).*/\1/p')
case $body in
  *'"method":"initialize"'*) result='{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"boxed","version":"1"}}' ;;
  *'"method":"tools/list"'*) result='{"tools":[{"name":"whoami","inputSchema":{"type":"object"}}]}' ;;
  *'"method":"tools/call"'*) result="{\"content\":[{\"type\":\"text\",\"text\":\"a token of ${#token} letters\"}]}" ;;
  *'"method":"notifications/'*) say '202 Accepted' '' '' ;;
  *) say '200 OK' '' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32601,\"message\":\"unknown\"}}" ;;
esac
say '200 OK' '' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
