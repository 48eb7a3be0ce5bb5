package rpctest

import (
	"context"
	"fmt"
	"time"

	"palyra"
	"palyra/internal/rpc"
	"palyra/internal/rpc/wire"
)

type bundlesPart struct{ *Parts }

// PolicyCheck is the one answer to a check.
var PolicyCheck = wire.PolicyCheck{
	Bundle: "sha256:44", Policies: 2, Problems: []wire.PolicyProblem{{File: "a.cedar", Line: 3, Column: 7, Text: "wrong"}},
	Tests: []wire.PolicyTest{{File: "tests/a.yaml", Name: "asks", OK: true}}, Warnings: []string{"no owner could change policy any more"},
}

// Activation is the one activation.
var Activation = wire.Activation{
	Number: 7, Bundle: "sha256:44", Snapshot: "sha256:55", By: "user:owner", At: time.Unix(1_700_000_000, 0).UTC(), InForce: true,
}

func (b bundlesPart) Check(ctx context.Context, files map[string]string) (wire.PolicyCheck, error) {
	b.note(ctx, fmt.Sprintf("check policy %d", len(files)))
	return PolicyCheck, nil
}

func (b bundlesPart) Apply(ctx context.Context, who rpc.Caller, files map[string]string, force bool) (wire.PolicyCheck, wire.Activation,
	error,
) {
	b.note(ctx, fmt.Sprintf("apply policy %d %t signed by %s", len(files), force, who.Evidence.Intent.KeyID))
	return PolicyCheck, Activation, nil
}

func (b bundlesPart) Rollback(ctx context.Context, _ rpc.Caller, d palyra.Digest, _ bool) (wire.Activation, error) {
	b.note(ctx, "rollback policy "+string(d))
	return Activation, nil
}

func (b bundlesPart) Activations(ctx context.Context, limit int) ([]wire.Activation, error) {
	b.note(ctx, fmt.Sprintf("activations %d", limit))
	return []wire.Activation{Activation}, nil
}
