package e2e

import (
	"os"
	"testing"

	"palyra"
	"palyra/client"
)

// A virtual environment of Python, whose links lead to the system's interpreter, is made unasked; a link elsewhere is not.
func TestAVirtualEnvironmentIsOrdinaryWork(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	if d.ownWork() == 0 {
		t.Fatal("the workspace is root's")
	}
	d.mustStart(shipped...)
	d.inWorkspace()
	agent := d.client(client.AgentDoor)
	call := func(line string) palyra.Outcome {
		t.Helper()
		r := d.inRoom(nil, "sh", "-c", line)
		r.NoWait = true
		o, err := agent.Call(t.Context(), r, nil)
		if err != nil {
			t.Fatal(err)
		}
		return o
	}
	o := call("python3 -m venv --without-pip env && ./env/bin/python -c 'print(6*7)'")
	if o.Stdout != "42\n" || o.Effects != palyra.EffectsKept {
		t.Errorf("%+v", o)
	}
	if to, err := os.Readlink(d.work + "/env/bin/python3"); err != nil || to[:9] != "/usr/bin/" {
		t.Errorf("%q, %v", to, err)
	}
	if o := call("ln -s /etc/passwd env/bin/other"); o.Effects == palyra.EffectsKept {
		t.Errorf("%+v", o)
	}
}
