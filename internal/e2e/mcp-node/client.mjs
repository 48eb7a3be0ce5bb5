// A client program on the official TypeScript SDK. It calls one tool and prints
// what it hears, one JSON object a line: progress, then the result or the error.
//
//   node client.mjs '{"command":…,"args":[…],"env":{…}}' '{"name":…,"arguments":{…},"timeout_ms":…,"cancel_on":"A","then":{…}}'
//
// The first argument may be {"url":…,"token":…}. cancel_on cancels when a progress
// note has that word in it; then is a second call, made when the first is over.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const server = JSON.parse(process.argv[2]);
const say = (event, value) => process.stdout.write(JSON.stringify({ event, ...value }) + '\n');

const transport = server.url
  ? new StreamableHTTPClientTransport(new URL(server.url), {
      requestInit: { headers: { Authorization: `Bearer ${server.token}` } },
    })
  : new StdioClientTransport({ ...server, stderr: 'inherit' });
const client = new Client({ name: 'palyra-ts', version: '1.0.0' });
await client.connect(transport);
const { tools } = await client.listTools();
say('tools', { names: tools.map((t) => t.name) });

async function call(c) {
  const cancel = new AbortController();
  try {
    const result = await client.callTool({ name: c.name, arguments: c.arguments }, undefined, {
      timeout: c.timeout_ms ?? 60000,
      signal: cancel.signal,
      onprogress: ({ message }) => {
        say('progress', { message });
        if (c.cancel_on && message.includes(c.cancel_on)) cancel.abort('the person changed their mind');
      },
    });
    say('result', { result });
  } catch (e) {
    await client.ping(); // over HTTP the cancel is on its way: closing now would take it back
    say('error', { message: String(e.message ?? e) });
  }
}

for (let c = JSON.parse(process.argv[3]); c; c = c.then) await call(c);
await client.close();
