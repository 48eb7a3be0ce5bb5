package invocation

import "github.com/spf13/cobra"

// Selection is what the flags of a list select.
type Selection struct {
	Principal, Session, State string
	States                    []string // that there are
}

// Select gives a list its flags; inState is the help of --state.
func Select[S ~string](inv *Invocation, cmd *cobra.Command, to *Selection, inState string, states []S) {
	for _, s := range states {
		to.States = append(to.States, string(s))
	}
	cmd.Flags().StringVar(&to.Principal, "principal", "", "only those of this principal")
	cmd.Flags().StringVar(&to.Session, "session", "", "only those of this session")
	cmd.Flags().StringVar(&to.State, "state", "", inState)
	_ = cmd.RegisterFlagCompletionFunc("session", inv.CompleteSessions)
	_ = cmd.RegisterFlagCompletionFunc("state", cobra.FixedCompletions(to.States, cobra.ShellCompDirectiveNoFileComp))
}
