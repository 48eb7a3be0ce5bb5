package child_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/cli/child"
)

const between = "PALYRA_TEST_CHILD_BETWEEN"

// TestMain is also the program between: it starts another one, tells its number and waits to be killed.
func TestMain(m *testing.M) {
	if os.Getenv(between) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "600")
	_ = child.Group(cmd)
	defer child.Bound(cmd)()
	if err := cmd.Start(); err != nil {
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
}

// TestBound: what was started ends with who started it, also when that one is killed.
func TestBound(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), between+"=1")
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || syscall.Kill(pid, 0) != nil {
		t.Fatalf("%v: %q does not run", err, line)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for range 3000 {
		if !runs(pid) {
			return
		}
		<-look.C
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
	t.Error("it goes on without who started it")
}

// runs reports whether a program is there and has not ended.
func runs(pid int) bool {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(raw), ") ")
	return !strings.HasPrefix(rest, "Z")
}
