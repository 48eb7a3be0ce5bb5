package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/client"
)

// Ordinary programs that need more than files: shared memory between processes, and a script run by its own name that
// looks for what lies beside it. Nobody is asked.
func TestOrdinaryPrograms(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	d.ownWork()
	d.mustStart(shipped...)
	d.inWorkspace()
	d.put("bin/lib.sh", "said='from beside'\n")
	d.put("bin/tool.sh", "#!/bin/sh\n. \"$(dirname \"$0\")/lib.sh\" && echo \"$said\"\n")
	if err := os.Chmod(filepath.Join(d.work, "bin/tool.sh"), 0o755); err != nil {
		t.Fatal(err)
	}
	d.put("pool.py", `import multiprocessing as m
def square(n): return n * n
if __name__ == "__main__":
    lock = m.Lock()
    with m.Pool(2) as p, lock:
        print(sum(p.map(square, range(5))))
`)
	agent := d.client(client.AgentDoor)
	for line, want := range map[string]string{
		"bin/tool.sh": "from beside\n", "./bin/tool.sh | cat": "from beside\n", "python3 pool.py": "30\n",
	} {
		r := d.inRoom(nil, "sh", "-c", line)
		r.NoWait = true
		if o, err := agent.Call(t.Context(), r, nil); err != nil || o.Outcome != palyra.OutcomeFinished || o.Stdout != want {
			t.Errorf("%s: %v %q %q %s", line, err, o.Stdout, o.Stderr, o.Reason)
		}
	}
	named := d.inRoom(nil, "bin/tool.sh")
	named.NoWait = true
	if o, err := agent.Call(t.Context(), named, nil); err != nil || o.Stdout != "from beside\n" {
		t.Errorf("by its own name: %v %q %q %s", err, o.Stdout, o.Stderr, o.Reason)
	}
}
