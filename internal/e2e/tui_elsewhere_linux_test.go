package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
)

// The inbox from another machine: by the connection of a paired device, whose own key answers there, and over ssh, where it
// runs beside the daemon. Each sees what the other answers, and both go on when the daemon was away.
func TestTerminalUIFromElsewhere(t *testing.T) {
	t.Parallel()
	d := newDaemon(t)
	address := freePort(t)
	start := func() { d.mustStart("PALYRA_REMOTE_LISTEN=" + address) }
	start()
	d.inWorkspace()
	laptop := d.paired("laptop", "", palyra.RoleApprover)
	key := sshKey(t, t.TempDir(), "login")
	server := newSSHServer(t, key)
	p := newPanes(t, d)
	p.home = laptop.home
	p.sit("far", 100, 30, "--remote", first, "tui")
	none := os.DevNull
	p.must("new-session", "-d", "-s", "ssh", "-x", "90", "-y", "28", "--", "ssh", "-t", "-F", none, "-p", server.port, "-i", key,
		"-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile="+none, "-o", "LogLevel=ERROR", server.user+"@127.0.0.1",
		bin(t, "palyra")+" --home "+d.home+" tui")
	p.see("far", "nothing waits for you")
	p.see("ssh", "nothing waits for you")
	ask := func(name string) <-chan answer {
		ch := propose(t.Context(), d.client(client.AgentDoor), write(d.work, name, "hello\n"))
		for _, screen := range []string{"far", "ssh"} {
			p.see(screen, `(?m)^> .*`+strings.ReplaceAll(name, ".", `\.`))
			p.press(screen, "Enter")
			p.see(screen, `(?s)Approval.*\+hello`)
		}
		return ch
	}

	ch := ask("a.txt")
	p.answer("ssh") // who is too slow
	p.see("ssh", `_\s*\n`)
	p.answer("far")
	p.write("far", "allow")
	if r := <-ch; r.err != nil || r.out.Outcome != palyra.OutcomeFinished || !exists(filepath.Join(d.work, "a.txt")) {
		t.Fatalf("%+v", r)
	}
	p.see("ssh", "somebody was faster: allow by user:")
	page, err := d.client(client.OperatorDoor).Approvals(t.Context(), client.ApprovalFilter{Limit: 1})
	must(t, err)
	if v := page.Approvals[0].Decision.Votes; len(v) != 1 || v[0].Separation != palyra.SeparationDevice || v[0].Method != palyra.MethodTUI {
		t.Errorf("%+v", page.Approvals[0].Decision)
	}
	p.leave("far")
	p.leave("ssh")

	d.kill()
	p.see("far", "no daemon")
	p.see("ssh", "no daemon")
	start()
	p.see("far", "connected")
	p.see("ssh", "connected")
	ch = ask("b.txt")
	p.answer("ssh")
	p.write("ssh", "deny")
	if r := <-ch; r.out.ReasonCode != palyra.ReasonApprovalDenied {
		t.Errorf("%+v", r)
	}
	p.see("far", "deny")
}
