package sandboxtest

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// cableVar holds the addresses, with ports, of a neighbour on a cable and of the
// host's own end of it, for the suite's later processes, which cannot make one.
const cableVar = "PALYRA_SANDBOXTEST_CABLE"

// cable makes a network with one machine in it, as containers have, and somebody
// there who greets. It is gone when the test is.
func cable(t *testing.T, probe string) {
	t.Helper()
	id := random()
	ns, ours, theirs := "pv"+id, "pa"+id, "pb"+id
	net := fmt.Sprintf("10.%d.%d", 64+os.Getpid()/250%128, os.Getpid()%250)
	run := func(args string) {
		if out, err := exec.CommandContext(t.Context(), "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v: %s", args, err, out)
		}
	}
	run("netns add " + ns)
	t.Cleanup(func() {
		_ = exec.Command("ip", "link", "del", ours).Run() // gone with the namespace, if not before
		if out, err := exec.Command("ip", "netns", "del", ns).CombinedOutput(); err != nil {
			t.Errorf("ip netns del %s: %v: %s", ns, err, out)
		}
	})
	run("link add " + ours + " type veth peer name " + theirs + " netns " + ns)
	run("addr add " + net + ".1/30 dev " + ours)
	run("link set " + ours + " up")
	run("-n " + ns + " addr add " + net + ".2/30 dev " + theirs)
	run("-n " + ns + " link set " + theirs + " up")
	run("-n " + ns + " link set lo up")
	at := greeter(t, exec.Command("ip", "netns", "exec", ns, probe, "serve", net+".2:0", "neighbour"))
	t.Setenv(cableVar, at+" "+greeter(t, exec.Command(probe, "serve", net+".1:0", "host")))
}

// greeter starts a server that says where it listens.
func greeter(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	servers.Store(cmd.Process.Pid, true)
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
		servers.Delete(cmd.Process.Pid)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	at, ok := strings.CutPrefix(strings.TrimSpace(line), "ready ")
	if !ok {
		t.Fatalf("the neighbour says %q", line)
	}
	return at
}
