// A client program on the official TypeScript SDK that calls tools as tasks. It
// prints what it hears, one JSON object a line.
//
//   node tasks.mjs '{"command":…,"args":[…],"env":{…}}' '[{"name":…,"arguments":{…},"ttl":…,"timeout_ms":…,"cancel_on":"A"}, …]'
//
// The first argument may be {"url":…,"token":…}. cancel_on cancels the task when what
// is said of it has that word in it. A call without a name asks about the task "of".
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CallToolResultSchema, ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

const server = JSON.parse(process.argv[2]);
const say = (event, value) => process.stdout.write(JSON.stringify({ event, ...value }) + '\n');

const transport = server.url
  ? new StreamableHTTPClientTransport(new URL(server.url), {
      requestInit: { headers: { Authorization: `Bearer ${server.token}` } },
    })
  : new StdioClientTransport({ ...server, stderr: 'inherit' });
const client = new Client({ name: 'palyra-ts', version: '1.0.0' }, { capabilities: server.shows ? { elicitation: { form: {} } } : {} });
if (server.shows)
  client.setRequestHandler(ElicitRequestSchema, async (r) => {
    say('view', { message: r.params.message, meta: r.params._meta });
    return { action: 'decline' };
  });
await client.connect(transport);
const { tools } = await client.listTools();
say('tools', { names: tools.filter((t) => t.execution?.taskSupport === 'optional').map((t) => t.name), offers: client.getServerCapabilities().tasks });
const tasks = client.experimental.tasks;

async function call(c) {
  const options = { timeout: c.timeout_ms ?? 60000, task: c.ttl ? { ttl: c.ttl } : {} };
  let id;
  for await (const m of tasks.callToolStream({ name: c.name, arguments: c.arguments }, CallToolResultSchema, options)) {
    id ??= m.task?.taskId;
    if (m.type === 'error') say('error', { message: String(m.error.message ?? m.error) });
    else say(m.type, { task: m.task, result: m.result });
    if (m.type === 'taskCreated' && c.result_at_once) {
      say('result', { result: await tasks.getTaskResult(id, CallToolResultSchema) });
      break;
    }
    if (m.type === 'taskStatus' && c.cancel_on && m.task.statusMessage?.includes(c.cancel_on)) {
      c.cancel_on = undefined;
      say('cancelled', { task: await tasks.cancelTask(id) });
    }
  }
  if (c.result_after) say('after', { result: await tasks.getTaskResult(id, CallToolResultSchema) });
}

async function ask(of) {
  const tries = [() => tasks.getTask(of), () => tasks.getTaskResult(of, CallToolResultSchema), () => tasks.cancelTask(of)];
  for (const t of tries) {
    try {
      say('seen', { value: await t() });
    } catch (e) {
      say('unseen', { message: String(e.message ?? e) });
    }
  }
}

for (const c of JSON.parse(process.argv[3])) await (c.name ? call(c) : ask(c.of));
let all = [], cursor;
do {
  const page = await tasks.listTasks(cursor);
  all = all.concat(page.tasks);
  cursor = page.nextCursor;
} while (cursor);
say('list', { tasks: all });
await client.close();
