package configuration

import (
	"io"

	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/config"
)

func configGroupsCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "groups", Short: "Show the groups of hosts that can be answered for at once", Args: syntax.Takes(),
		Long: "Shows the groups that come with Palyra and those of [groups] in the configuration, with\n" +
			"every host and where it comes from. A question about nothing but hosts of one group can be\n" +
			"answered with allow-group.",
		Example: "  palyra config groups\n  palyra config groups --json | jq -r '.groups[].name'",
		RunE: func(*cobra.Command, []string) error {
			c, err := inv.Config()
			if err != nil {
				return err
			}
			all, err := c.ShownGroups()
			if err != nil {
				return err
			}
			var rows [][]string
			for _, g := range all {
				for _, h := range g.Hosts {
					rows = append(rows, []string{g.Name, h.At, h.Source})
				}
			}
			return inv.Emit(map[string][]config.ShownGroup{"groups": all}, func(w io.Writer) {
				screen.Table(w, []string{"GROUP", "HOST", "SOURCE"}, rows)
			})
		},
	}
}
