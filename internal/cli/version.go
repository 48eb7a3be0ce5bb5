package cli

import (
	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/quick"
	"palyra/internal/cli/syntax"
)

// versionCommand is "version".
func versionCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: syntax.Takes(),
		Example: "  palyra version\n  palyra version --json",
		RunE: func(*cobra.Command, []string) error {
			b := quick.ThisBuild(inv.Version)
			return inv.Emit(b, b.Print)
		},
	}
}
