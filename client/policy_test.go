package client_test

import (
	"slices"
	"strings"
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/rpc/rpctest"
)

func TestBundles(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	files := map[string]string{"a.cedar": "permit(principal, action, resource);", "tests/a.yaml": "ä\n"}
	check, err := c.CheckPolicy(ctx, files)
	same(t, "check", err, check, rpctest.PolicyCheck)
	check, done, err := c.ApplyPolicy(ctx, files, true)
	same(t, "check", err, check, rpctest.PolicyCheck)
	same(t, "activation", err, done, rpctest.Activation)
	back, err := c.RollbackPolicy(ctx, "", false)
	same(t, "rollback", err, back, rpctest.Activation)
	list, err := c.Activations(ctx, 7)
	same(t, "activations", err, list, []client.Activation{rpctest.Activation})
	if _, err := c.Activations(ctx, -1); reason(err) != palyra.ReasonMalformedInput {
		t.Error(err)
	}
	if _, err := c.RollbackPolicy(ctx, "latest", false); reason(err) != palyra.ReasonMalformedInput {
		t.Error(err)
	}
}

// Too large a bundle is refused and not cut.
func TestBundleTooLarge(t *testing.T) {
	c := newBench(t).operator()
	if _, err := c.CheckPolicy(t.Context(), map[string]string{"a.cedar": strings.Repeat(" ", 2<<20)}); err == nil {
		t.Error("taken")
	}
	if _, _, err := c.ApplyPolicy(t.Context(), map[string]string{"a.cedar": strings.Repeat(" ", 2<<20)}, true); err == nil {
		t.Error("taken")
	}
}

// Nobody changes policy without an operator's key.
func TestBundlesAreSigned(t *testing.T) {
	b := newBench(t)
	c, err := client.Open(client.Config{Home: b.home, Door: client.OperatorDoor})
	must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	if _, _, err := c.ApplyPolicy(t.Context(), nil, false); reason(err) != palyra.ReasonSignatureRequired {
		t.Error(err)
	}
	if _, err := c.RollbackPolicy(t.Context(), "", false); reason(err) != palyra.ReasonSignatureRequired {
		t.Error(err)
	}
	if slices.ContainsFunc(b.parts.Seen(), func(s string) bool { return strings.Contains(s, "apply") }) {
		t.Error("it reached the part")
	}
}
