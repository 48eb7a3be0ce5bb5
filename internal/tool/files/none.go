//go:build !unix

package files

import (
	"context"

	"palyra"
	"palyra/internal/tool"
)

// All returns no tools: files are not served on this system yet, and a missing tool cannot be called.
func All(Config) []tool.Tool { return nil }

// Target fails: files are not served on this system yet.
func Target(context.Context, palyra.WorkspaceRef, string) (string, error) {
	return "", palyra.Errorf(palyra.Denied, palyra.ReasonUnsupported, "files are not served on this system")
}

// Sweep does nothing: no call has written anything on this system.
func Sweep(context.Context, palyra.CallID, palyra.Plan) ([]string, error) { return nil, nil }
