package posture

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"palyra"
	"palyra/internal/sandbox/celltest"
)

// open is a tier that holds nothing: the program just runs.
type open struct{ t testing.TB }

func (open) Promise(context.Context, palyra.Tier, palyra.Limits) (palyra.Enforcement, error) {
	return palyra.Enforcement{
		Mode: "strict", Mechanisms: []string{"cgroup_v2", "landlock_abi_7"},
		Limits: map[string]palyra.Hold{"memory": "cgroup"},
	}, nil
}

func (o open) Run(ctx context.Context, _ palyra.Tier, j Job) (Exit, error) {
	cell, _ := celltest.Cell(o.t)
	cmd := exec.CommandContext(ctx, cell, j.Argv[1:]...)
	cmd.Dir = j.Workspace
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	switch { // what would stay behind otherwise
	case slices.Contains(j.Argv, "fork"):
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWPID
	case slices.Contains(j.Argv, "mount"):
		cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: int(j.UID), Size: 1}}
	}
	out, err := cmd.Output()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		return Exit{}, err
	}
	return Exit{Stdout: out, Code: cmd.ProcessState.ExitCode()}, nil
}

// TestTheProbesNotice: where nothing is held, no probe says so. What this kernel
// refuses to everybody is named by what it says.
func TestTheProbesNotice(t *testing.T) {
	own := users(t)["own"]
	h := host(t, open{t}, own[0], own[1], palyra.TierC)
	p, err := Check(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if p.Held() {
		t.Error("everything held")
	}
	for _, tier := range p.Tiers {
		for _, pr := range tier.Probes {
			switch {
			case pr.Name == "workspace":
				if !pr.Held {
					t.Errorf("%+v", pr)
				}
			case pr.Name == "signal" && tier.Tier == palyra.TierC: // numbers may mean others there
				if pr.Held || !strings.Contains(pr.Detail, "the signal arrived") {
					t.Errorf("%+v", pr)
				}
			case pr.Held && strings.HasPrefix(pr.Name, "syscall_"):
				t.Logf("UNPROVEN HERE: the kernel refuses %s to everybody: %s", pr.Name, pr.Detail)
			case pr.Held || pr.Remedy == "" || !strings.Contains(pr.Detail, "it worked") && pr.Name != "new_sealed_path" &&
				pr.Name != "syscall_unshare":
				t.Errorf("tier %s: %+v", tier.Tier, pr)
			}
			t.Logf("%s %-24s %v %s", tier.Tier, pr.Name, pr.Held, pr.Detail)
		}
	}
}

// liar is a tier whose program says that everything was refused, while it has a
// helper that does it all.
type liar struct{ open }

func (l liar) Run(ctx context.Context, tier palyra.Tier, j Job) (Exit, error) {
	if act := j.Argv[3]; act == "fork" || act == "memory" { // there is nothing to see of these
		return Exit{}, nil
	}
	x, err := l.open.Run(ctx, tier, j)
	if bytes.Contains(x.Stdout, []byte(`"done":true`)) && j.Argv[3] != "work" {
		x.Stdout = fmt.Appendf(nil, `{"nonce":%q,"act":%q,"done":false,"error":"EPERM"}`+"\n", j.Argv[2], j.Argv[3])
	}
	return x, err
}

// TestOutsideIsBelieved: what is seen outside counts, whatever is said inside.
func TestOutsideIsBelieved(t *testing.T) {
	own := users(t)["own"]
	p, err := Check(t.Context(), host(t, liar{open{t}}, own[0], own[1], palyra.TierC))
	if err != nil {
		t.Fatal(err)
	}
	for _, pr := range tierOf(p, palyra.TierC).Probes {
		switch pr.Name {
		case "symlink_write", "outside_write", "loopback", "unix_socket", "abstract_socket", "signal", "sealed_path", "new_sealed_path", "egress":
			if pr.Held || !strings.Contains(pr.Detail, "outside: ") {
				t.Errorf("%+v", pr)
			}
		}
	}
}
