package invocation

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"palyra/client"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// Page is a printed list of things.
type Page[T any] struct {
	JSON   any // what --json prints
	Things []T
	Next   string // the cursor of the next page; "" at the end
	Head   []string
	Row    func(T) []string
}

// Show prints the page as JSON, or as a table with a hint where there is more.
func (p Page[T]) Show(inv *Invocation) error {
	return inv.Emit(p.JSON, func(w io.Writer) {
		rows := make([][]string, len(p.Things))
		for i, x := range p.Things {
			rows[i] = p.Row(x)
		}
		screen.Table(w, p.Head, rows)
		inv.moreHint(p.Next)
	})
}

// moreHint prints how to see the rest of a list.
func (inv *Invocation) moreHint(cursor string) {
	if cursor != "" {
		inv.Say("palyra: there are more: --cursor %s", show.Arg(cursor))
	}
}

// List is a command that lists all things of one kind.
type List[T any] struct {
	Short, Example string
	Name           string // of the list in JSON
	Find           func(*client.Client, context.Context) ([]T, error)
	Whole          func(T) T // gives a thing's own lists their JSON form; nil: it has none
	Head           []string
	Row            func(T) []string
}

// Command is the command "list".
func (l List[T]) Command(inv *Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: l.Short, Args: syntax.Takes(), Example: l.Example,
		RunE: inv.AsOperator(func(ctx context.Context, c *client.Client, _ []string) error {
			things, err := l.Find(c, ctx)
			if err != nil {
				return err
			}
			for i := range things {
				if l.Whole != nil {
					things[i] = l.Whole(things[i])
				}
			}
			return Page[T]{JSON: map[string][]T{l.Name: screen.Some(things)}, Things: things, Head: l.Head, Row: l.Row}.Show(inv)
		}),
	}
}
