//go:build linux

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// nodeProfile makes a profile that shows Node and the official MCP packages to a
// sandbox, and returns its name with the two paths. They are shown as links or
// copies elsewhere: no profile may mount a cache of Palyra's own.
func (d *daemon) nodeProfile() (profile, program, modules string) {
	d.t.Helper()
	program, cache := node(d.t)
	real, err := filepath.EvalSymlinks(program)
	if err != nil {
		d.t.Fatal(err)
	}
	home := shownNode(d.t, real)
	modules = filepath.Join(filepath.Dir(d.home), "shown", "modules")
	if err := os.MkdirAll(filepath.Dir(modules), 0o755); err != nil {
		d.t.Fatal(err)
	}
	linkOrCopy(d.t, cache, modules)
	program = filepath.Join(home, "node")
	if err := os.MkdirAll(filepath.Join(d.home, "profiles"), 0o700); err != nil {
		d.t.Fatal(err)
	}
	d.write(filepath.Join(d.home, "profiles", "mcp-node.toml"),
		fmt.Sprintf("description = \"Node and MCP servers\"\n\n[[mounts]]\nsource = %q\n\n[[mounts]]\nsource = %q\n", home, modules), 0o600)
	return "mcp-node", program, modules
}

// nodeHome is a directory with Node alone, one for all tests: each further link to it would be a change of the file for
// those whose daemons are reading it.
var nodeHome struct {
	sync.Mutex
	dir string
}

func shownNode(t testing.TB, real string) string {
	t.Helper()
	nodeHome.Lock()
	defer nodeHome.Unlock()
	if nodeHome.dir == "" {
		dir := filepath.Join(filepath.Dir(bin(t, "palyra")), "node")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		linkOrCopy(t, real, filepath.Join(dir, "node"))
		nodeHome.dir = dir
	}
	return nodeHome.dir
}

func linkOrCopy(t testing.TB, from, to string) {
	t.Helper()
	if exec.Command("cp", "-al", from, to).Run() == nil {
		return
	}
	_ = os.RemoveAll(to) // another file system
	if out, err := exec.Command("cp", "-a", from, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

const sdkServer = `import { McpServer } from "./node_modules/@modelcontextprotocol/sdk/dist/esm/server/mcp.js";
import { StdioServerTransport } from "./node_modules/@modelcontextprotocol/sdk/dist/esm/server/stdio.js";
import { readFileSync } from "node:fs";
const server = new McpServer({ name: "sdk", version: "1.0.0" });
server.registerTool("where", { description: "Says where it is." }, async () => ({ content: [{ type: "text", text: process.cwd() }] }));
server.registerTool("peek", { description: "Reads what it must not." }, async () => ({ content: [{ type: "text", text: readFileSync(process.env.PEEK, "utf8") }] }));
await server.connect(new StdioServerTransport());
`

// TestUpstreamOnTheOfficialSDK: a server on the official TypeScript SDK, in Node,
// in tier C.
func TestUpstreamOnTheOfficialSDK(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.write(filepath.Join(d.home, "secret"), "planted", 0o644)
	profile, program, modules := d.nodeProfile()
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(d.work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.work, "server.mjs"), []byte(sdkServer), 0o600); err != nil {
		t.Fatal(err)
	}
	d.mustStart()
	u, err := d.client(client.OperatorDoor).AddUpstream(t.Context(), "sdk", palyra.UpstreamDefinition{
		Transport: palyra.TransportStdio, Command: []string{program, "server.mjs"}, Workspace: d.work, Profile: profile,
		Env: map[string]string{"PEEK": filepath.Join(d.home, "secret")},
	}, true)
	if err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	if len(u.Tools) != 2 || !strings.Contains(u.Server, "sdk 1.0.0") {
		t.Errorf("%+v", u)
	}
	if out, _ := d.allowed(mcpCall("mcp.sdk.where", map[string]any{})); !strings.Contains(string(out.Output), d.work) {
		t.Errorf("%+v", out)
	}
	if out, _ := d.allowed(mcpCall("mcp.sdk.peek", map[string]any{})); out.ExitCode == 0 || strings.Contains(string(out.Output), "planted") {
		t.Errorf("%+v", out)
	}
}

const taskServer = `import { McpServer } from "./node_modules/@modelcontextprotocol/sdk/dist/esm/server/mcp.js";
import { StdioServerTransport } from "./node_modules/@modelcontextprotocol/sdk/dist/esm/server/stdio.js";
import { InMemoryTaskStore } from "./node_modules/@modelcontextprotocol/sdk/dist/esm/experimental/tasks/stores/in-memory.js";
import { writeFileSync } from "node:fs";
class Store extends InMemoryTaskStore {
  async updateTaskStatus(id, status, ...more) {
    writeFileSync("status", status);
    return super.updateTaskStatus(id, status, ...more);
  }
}
const taskStore = new Store();
const server = new McpServer({ name: "tasks", version: "1.0.0" },
  { taskStore, capabilities: { tasks: { list: {}, cancel: {}, requests: { tools: { call: {} } } } } });
const made = (work) => ({
  createTask: async (extra) => {
    const task = await extra.taskStore.createTask({ ttl: extra.taskRequestedTtl, pollInterval: 100 });
    work(task.taskId, extra.taskStore);
    return { task };
  },
  getTask: async (extra) => extra.taskStore.getTask(extra.taskId),
  getTaskResult: async (extra) => extra.taskStore.getTaskResult(extra.taskId),
});
const text = (text) => ({ content: [{ type: "text", text }] });
const tasks = server.experimental.tasks;
tasks.registerToolTask("slow", { description: "Takes a while.", execution: { taskSupport: "required" } },
  made((id, store) => setTimeout(() => store.storeTaskResult(id, "completed", text("slept")), 700)));
tasks.registerToolTask("fails", { description: "Fails.", execution: { taskSupport: "optional" } },
  made((id, store) => setTimeout(() => store.storeTaskResult(id, "failed", { ...text("no luck"), isError: true }), 200)));
tasks.registerToolTask("never", { description: "Never ends.", execution: { taskSupport: "required" } }, made(() => writeFileSync("status", "working")));
await server.connect(new StdioServerTransport());
`

// TestUpstreamTasksOnTheOfficialSDK: tools that a server on the official TypeScript SDK makes tasks of, in tier C. A call
// that is cancelled cancels the task there.
func TestUpstreamTasksOnTheOfficialSDK(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	profile, program, modules := d.nodeProfile()
	if err := os.Symlink(filepath.Join(modules, "node_modules"), filepath.Join(d.work, "node_modules")); err != nil {
		t.Fatal(err)
	}
	d.write(filepath.Join(d.work, "server.mjs"), taskServer, 0o600)
	d.mustStart()
	person := d.client(client.OperatorDoor)
	if _, err := person.AddUpstream(t.Context(), "sdk", palyra.UpstreamDefinition{
		Transport: palyra.TransportStdio, Command: []string{program, "server.mjs"}, Workspace: d.work, Profile: profile,
	}, true); err != nil {
		t.Fatalf("%v\n%s", err, d.log)
	}
	if out, _ := d.allowed(mcpCall("mcp.sdk.slow", map[string]any{})); out.ExitCode != 0 || !strings.Contains(string(out.Output), "slept") {
		t.Errorf("%+v", out)
	}
	if out, _ := d.allowed(mcpCall("mcp.sdk.fails", map[string]any{})); out.ExitCode == 0 || !strings.Contains(string(out.Output), "no luck") {
		t.Errorf("%+v", out)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r := mcpCall("mcp.sdk.never", map[string]any{})
	ended := propose(ctx, d.client(client.AgentDoor), r)
	a := d.pending(person)
	d.decide(a, "allow")
	status := func(want string) {
		t.Helper()
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for range 600 {
			if raw, _ := os.ReadFile(filepath.Join(d.work, "status")); string(raw) == want {
				return
			}
			<-look.C
		}
		t.Errorf("the task is not %s", want)
	}
	status("working")
	if err := person.CancelCall(t.Context(), a.Call); err != nil {
		t.Error(err)
	}
	status("cancelled")
	if got := <-ended; got.out.Outcome != palyra.OutcomeCancelled {
		t.Errorf("%+v", got)
	}
}

// official are calls of every tool of the official servers, with arguments that
// they take. Those of everything that want what a client offers are not there for
// one that offers nothing.
var official = map[string]map[string]map[string]any{
	"server-filesystem": {
		"read_file": {"path": "a.txt"}, "read_text_file": {"path": "a.txt"}, "read_media_file": {"path": "a.png"},
		"read_multiple_files": {"paths": []string{"a.txt"}},
		"write_file":          {"path": "b.txt", "content": "b"}, "edit_file": {
			"path":  "a.txt",
			"edits": []any{map[string]any{"oldText": "hay", "newText": "straw"}},
		},
		"create_directory": {"path": "made"}, "list_directory": {"path": "."}, "list_directory_with_sizes": {"path": "."},
		"directory_tree": {"path": "made"},
		"move_file":      {"source": "m.txt", "destination": "moved.txt"}, "search_files": {"path": ".", "pattern": "*.txt"},
		"get_file_info": {"path": "a.txt"}, "list_allowed_directories": {},
	},
	"server-everything": {
		"echo": {"message": "hello"}, "add": {"a": 1, "b": 2}, "get-sum": {"a": 1, "b": 2}, "get-structured-content": {"location": "New York"},
		"trigger-long-running-operation": {"duration": 1, "steps": 1}, "get-annotated-message": {"messageType": "success"},
		"get-resource-reference":   {"resourceType": "Text", "resourceId": 1},
		"toggle-simulated-logging": {}, "toggle-subscriber-updates": {}, "get-tiny-image": {}, "get-env": {},
		"get-resource-links": {"count": 1}, "gzip-file-as-resource": {"name": "x.gz", "data": "data:text/plain;base64,aGk="},
		"simulate-research-query": {"topic": "gates"},
	},
}

// TestOfficialServersBehindTheGate calls every tool of the official servers.
func TestOfficialServersBehindTheGate(t *testing.T) {
	t.Parallel()
	for name, calls := range official {
		t.Run(name, func(t *testing.T) {
			d := newDaemon(t)
			profile, program, modules := d.nodeProfile()
			server := filepath.Join(modules, "node_modules", "@modelcontextprotocol", name, "dist", "index.js")
			argument := d.work // what the one may touch
			if name == "server-everything" {
				argument = "stdio"
			}
			for file, text := range map[string]string{"a.txt": "hay\n", "m.txt": "m", "a.png": "\x89PNG"} {
				d.write(filepath.Join(d.work, file), text, 0o600)
			}
			d.mustStart()
			u, err := d.client(client.OperatorDoor).AddUpstream(t.Context(), "official", palyra.UpstreamDefinition{
				Transport: palyra.TransportStdio, Command: []string{program, server, argument}, Workspace: d.work, Profile: profile,
			}, true)
			if err != nil {
				t.Fatalf("%v\n%s", err, d.log)
			}
			for _, tool := range u.Tools {
				if tool.State != palyra.UpstreamToolActive {
					t.Errorf("%s is %s: %s", tool.Name, tool.State, tool.Why)
					continue
				}
				args, known := calls[tool.Name]
				if !known {
					t.Errorf("no arguments for %s", tool.Name)
					continue
				}
				out, _ := d.allowed(mcpCall(string(tool.Tool), args))
				if out.ExitCode != 0 {
					t.Errorf("%s: %s %s", tool.Name, out.Reason, out.Output)
				}
				// One can be called as a task only.
				if tool.Name == "simulate-research-query" && !strings.Contains(string(out.Output), "Research Report: gates") {
					t.Errorf("%s: %s", tool.Name, out.Output)
				}
			}
		})
	}
}
