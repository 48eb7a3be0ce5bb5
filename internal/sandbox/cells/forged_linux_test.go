package cells

import (
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/refusal"
)

// puppet is a cell whose process does nothing by itself: the test speaks for it.
func puppet(t *testing.T, c Cgroups) (*Keeper, *cell.Conn) {
	t.Helper()
	f, err := NewFleet(Config{Tier: "test", StateID: "forged"})
	if err != nil {
		t.Fatal(err)
	}
	f.Host, f.Groups, f.Log = Host{Proc: t.TempDir()}, c, slog.New(slog.DiscardHandler)
	var says *cell.Conn
	k, err := f.Open(func(k *Keeper, control, _ *os.File) (Body, error) {
		fd, err := syscall.Dup(int(control.Fd()))
		if err != nil {
			return nil, err
		}
		if says, err = cell.NewConn(os.NewFile(uintptr(fd), "control")); err != nil {
			return nil, err
		}
		p, err := os.StartProcess("/bin/sleep", []string{"sleep", "1000"}, &os.ProcAttr{})
		return child{p}, err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		k.Body.Kill()
		_ = says.Close()
		f.work.Wait()
	})
	return k, says
}

// perform gives a puppet a job, and has it say something about it.
func perform(t *testing.T, k *Keeper, says *cell.Conn, terms Terms, reports ...cell.Report) (*Process, error) {
	t.Helper()
	go func() {
		var o cell.Order
		files, _ := says.Recv(&o)
		cell.CloseAll(files)
		for _, r := range reports {
			_ = says.Send(r)
		}
		if len(reports) == 0 || reports[len(reports)-1].Kind == cell.ReportStarted {
			k.Body.Kill() // without a last word
			_ = says.Close()
		}
	}()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	s := cell.Spec{
		Version: cell.Version, Path: "/bin/true", Argv: []string{"true"}, Env: []string{}, Cwd: "/", Filter: []byte{6, 0, 0, 0, 0, 0, 0xff, 0x7f},
		Landlock: cell.Landlock{FS: 1, Rules: []cell.Rule{{Path: "/", Access: 1}}}, Watch: cell.Watch{EveryMS: 50},
	}
	j := sandbox.Job{Stdin: null, Stdout: null, Stderr: null, Limits: palyra.Limits{MemoryBytes: 1 << 20}}
	p, err := k.Run(t.Context(), s, j, terms)
	if err != nil {
		t.Log(palyra.AsError(err).Cause)
	}
	return p, err
}

func runs(pid int) bool {
	st, ok := statOf("/proc", pid)
	return ok && st.state != "Z" && st.state != "X"
}

// TestForgedEnd: a cell that says that all is over and stays is dead before anything
// else happens; and one that says after the start that nothing ran is not believed.
func TestForgedEnd(t *testing.T) {
	for name, said := range map[string][]cell.Report{
		"ended":  {{Kind: cell.ReportStarted}, {Kind: cell.ReportExited}, {Kind: cell.ReportEnded}},
		"failed": {{Kind: cell.ReportStarted}, {Kind: cell.ReportFailed, Step: "exec"}, {Kind: cell.ReportEnded}},
	} {
		t.Run(name, func(t *testing.T) {
			k, says := puppet(t, Cgroups{})
			pid := k.Body.Pid()
			swept := 0
			p, err := perform(t, k, says, Terms{
				Explain: func(cell.Report) error { return refusal.SpawnFailed("nothing ran") },
				After: func(_ *sandbox.Exit, ran bool) error {
					if swept++; runs(pid) || !ran {
						t.Errorf("ran %v, alive %v when the run is over", ran, runs(pid))
					}
					return nil
				},
			}, said...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.Wait(); err != nil || swept != 1 {
				t.Errorf("%v, swept %d times", err, swept)
			}
		})
	}
}

// TestForgedFailure: one that says that nothing ran is dead before that is told.
func TestForgedFailure(t *testing.T) {
	k, says := puppet(t, Cgroups{})
	_, err := perform(t, k, says, Terms{Explain: func(cell.Report) error { return refusal.SpawnFailed("nothing ran") }},
		cell.Report{Kind: cell.ReportFailed})
	if palyra.AsError(err).Reason != palyra.ReasonSpawnFailed || runs(k.Body.Pid()) {
		t.Errorf("%v, alive %v", err, runs(k.Body.Pid()))
	}
}

// TestCellGoesAlong: where a run takes its cell with it when memory or tasks run out,
// that is the limit's doing; a cell that is gone for another reason is lost.
func TestCellGoesAlong(t *testing.T) {
	for _, c := range []struct{ oom, pids, limit string }{
		{"oom_kill_disable 0\nunder_oom 0\noom_kill 2\n", "max 0\n", "memory"},
		{"under_oom 1\noom_kill 0\n", "max 3\n", "processes"},
		{"oom_kill 1\n", "max 1\n", "memory"},
		{"under_oom 1\noom_kill 0\n", "max 0\n", ""},
		{"", "", ""},
		{"oom_kill x\n", "max -1\n", ""},
	} {
		dir := t.TempDir()
		k, says := puppet(t, Cgroups{
			kernel:  fake("tasks", "cgroup.procs", "memory.limit_in_bytes", "memory.oom_control", "pids.events"),
			Version: 1, Memory: dir, Pids: dir, inside: true,
		})
		for file, text := range map[string]string{"memory.oom_control": c.oom, "pids.events": c.pids} {
			if err := os.WriteFile(filepath.Join(dir, k.Group.name, file), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		p, err := perform(t, k, says, Terms{}, cell.Report{Kind: cell.ReportStarted})
		if err != nil {
			t.Fatal(err)
		}
		x, err := p.Wait()
		if x.Limit != c.limit || (err == nil) != (c.limit != "") || c.limit != "" && x.Signal != "SIGKILL" {
			t.Errorf("%+v: %+v %v", c, x, err)
		}
	}
}
