package rpc_test

import (
	"net"
	"os"
	"strings"
	"testing"

	"palyra"
	"palyra/internal/rpc"
)

// A run's own door: whoever comes in is its agent, may do what agents may, and
// nothing when it is somebody else's process.
func TestARunsOwnDoor(t *testing.T) {
	b := newBench(t, rpc.New)
	open := func(name string, uid int64) func() {
		l, err := net.Listen("unix", b.socket(name))
		b.must(err)
		return b.server.ServeAgent(l, rpc.AgentSocket{
			Call: "01PARENT", Agent: palyra.Agent{Principal: "agent:inside", Owner: "user:alice"}, UID: uid, Line: []palyra.CallID{"01PARENT"},
			Origin: "agent:user.alice", Within: []string{"/w"},
		})
	}
	stop := open("room", int64(os.Geteuid()))
	if code, body := b.post("room", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code != 200 {
		t.Errorf("%d %s", code, body)
	}
	if code, body := b.post("room", "/palyra.v1.AccessService/ListAgents", "application/json", `{}`); code == 200 {
		t.Errorf("an agent may look at agents: %s", body)
	}
	if code, body := b.post("room", "/palyra.v1.ToolService/GetCall", "application/json", `{"call_id":"C"}`); code != 200 ||
		!strings.Contains(string(body), "agent:inside") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := b.post("room", "/palyra.v1.AccessService/WhoAmI", "application/json", `{}`); code != 200 ||
		!strings.Contains(string(body), `"workspaces":["/w"]`) {
		t.Errorf("it does not reach what its run does: %d %s", code, body)
	}
	if code, body := b.post("room", "/palyra.v1.RunService/ListRuns", "application/json", `{}`); code == 200 {
		t.Errorf("runs from inside: %s", body)
	}
	stop()
	if _, err := net.Dial("unix", b.socket("room")); err == nil {
		t.Error("the door is open after its end")
	}
	defer open("other", int64(os.Geteuid())+1)()
	if code, body := b.post("other", "/palyra.v1.ToolService/ListTools", "application/json", `{}`); code == 200 ||
		!strings.Contains(string(body), "foreign_uid") {
		t.Errorf("%d %s", code, body)
	}
}
