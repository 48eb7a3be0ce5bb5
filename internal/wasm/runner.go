package wasm

import "context"

// Runner is the runtime, as those see it who have modules.
type Runner interface {
	// Run makes one invocation. The error is a *palyra.Error with one of this package's reasons.
	Run(ctx context.Context, i Invocation) (Result, error)
	// Check compiles a module and says what is wrong with it: malformed, an import that is not offered, an export that
	// is missing. Functions are the exports that an Export module must have. Nothing of the module runs.
	Check(ctx context.Context, m Module, k Kind, functions []string, l Limits) error
	// Ready says why nothing can be run here; nil: it can.
	Ready() error
}
