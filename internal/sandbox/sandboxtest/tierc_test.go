//go:build linux

package sandboxtest_test

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"palyra"
	"palyra/internal/egress"
	"palyra/internal/sandbox"
	"palyra/internal/sandbox/bubble"
	"palyra/internal/sandbox/local"
	"palyra/internal/sandbox/sandboxtest"
	"palyra/internal/seal"
)

// lacksC is what tier C cannot give.
var lacksC = map[string]string{
	"leave the owner pipes":                       "the kernel counts the memory of pipes by uid, and the run has its owner's",
	"bound memory in connections where polled":    "what waits in sockets belongs to no process, and no counter of it is the run's",
	"bound memory in connections where cgroup_v1": "the old memory controller does not count what waits in TCP sockets",
}

// tmpC is small, so that filling it costs little.
const tmpC = 48 << 20

func openC(places *local.Places) func(*testing.T, string) sandbox.Backend {
	return func(t *testing.T, state string) sandbox.Backend { return openedC(t, state, places) }
}

func openedC(t *testing.T, state string, places *local.Places) sandbox.Backend {
	t.Helper()
	cell, digest := builtCell(t)
	// The directories outlive the backend: its next life finds what it left.
	dir := filepath.Join(os.TempDir(), "palyra-tierc-"+state)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, d := range []string{dir, dir + "/own", dir + "/quarantine"} {
		if err := os.Mkdir(d, 0o700); err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
	b, err := bubble.New(bubble.Config{
		Cell: cell, Digest: digest, Warm: 1, WarmBytes: 64 << 20, StateID: state, Dir: dir + "/own", Quarantine: dir + "/quarantine", Tmp: tmpC,
		Places: places,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// guard gives the egress guard the form that the sandbox wants.
type guard struct{ *egress.Guard }

func (guard) Mode() palyra.NetworkMode { return "strict" }
func (guard) Mechanisms() []string     { return []string{sandbox.Guarded} }

func (g guard) Open(ctx context.Context, c *palyra.Call, p palyra.Plan) (sandbox.Gateway, error) {
	s, err := g.Guard.Open(ctx, c, p)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func openGuard(t *testing.T, resolver string) sandbox.EgressGuard {
	t.Helper()
	g, err := egress.New(egress.Config{
		Mode: "strict", Resolver: resolver,
		PrivateRanges: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
	})
	if err != nil {
		t.Fatal(err)
	}
	return guard{g}
}

func TestTierC(t *testing.T) {
	sandboxtest.Run(t, sandboxtest.Factory{Open: openC(&local.Places{}), Lacks: lacksC, Tmp: tmpC, Seals: seal.Default, Guard: openGuard})
}
