package client_test

import (
	"testing"

	"palyra"
	"palyra/client"
	"palyra/internal/rpc/rpctest"
)

func TestSandbox(t *testing.T) {
	b := newBench(t)
	c, ctx := b.operator(), t.Context()
	p, err := c.RunDoctor(ctx)
	same(t, "doctor", err, p, rpctest.Posture)
	p, err = c.RunDoctor(ctx, palyra.TierB)
	if err != nil || len(p.Posture.Tiers) != 1 {
		t.Errorf("%+v %v", p, err)
	}
	list, err := c.Postures(ctx, "")
	same(t, "postures", err, list, []palyra.SignedPosture{rpctest.Posture})
	digest := palyra.SumBytes([]byte("x"))
	b.parts.Seen()
	list, err = c.Postures(ctx, digest)
	same(t, "posture", err, list, []palyra.SignedPosture{rpctest.Posture})
	if seen := b.parts.Seen(); len(seen) != 1 || seen[0] != "posture "+string(digest) {
		t.Errorf("%v", seen)
	}
	if _, err := c.Postures(ctx, "sha256:nothing"); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("%v", err)
	}
	many := make([]palyra.Tier, 9)
	if _, err := c.RunDoctor(ctx, many...); reason(err) != palyra.ReasonMalformedInput {
		t.Errorf("%v", err)
	}
	unsigned := b.open(client.Config{Door: client.OperatorDoor})
	if _, err := unsigned.RunDoctor(ctx); reason(err) == "" {
		t.Error("the doctor came without a signature")
	}
	if _, err := b.agent().Postures(ctx, ""); reason(err) != palyra.ReasonPermission {
		t.Errorf("an agent looks at the posture: %v", err)
	}
}
