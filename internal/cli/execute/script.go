package execute

import (
	"context"

	"palyra/client"
	"palyra/internal/cli/proposal"
)

// readScript reads the script to run; "" without one. When it comes from stdin, the script's own stdin is empty.
func (x *execution) readScript(ctx context.Context, c *client.Client, o *proposal.Options) (string, error) {
	var raw []byte
	switch o.Script {
	case "":
		return "", nil
	case "-":
		if err := c.Health(ctx); err != nil {
			return "", x.orGivenUp(ctx, err)
		}
		in, err := x.readStdin(ctx)
		if err != nil {
			return "", err
		}
		raw, o.NoStdin = in.Head, true
	default:
		var err error
		if raw, err = x.inv.ReadInput("@"+o.Script, proposal.MaxScript); err != nil {
			return "", err
		}
	}
	return proposal.ScriptText(raw)
}
