package doctor

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/hook"
)

// Server is an MCP server for probes: its one tool makes a file in a directory.
func Server(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "doctor-server DIR", Hidden: true, Args: syntax.Takes("DIR"),
		Short: "Serve the doctor's own tool over MCP", Long: "Is started by agents that 'palyra hook doctor' examines.",
		Example: "  palyra hook doctor",
		RunE:    func(_ *cobra.Command, args []string) error { return serve(inv.Stdin, inv.Stdout, args[0]) },
	}
}

// maxMessage is the longest message of a client.
const maxMessage = 1 << 20

type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Version   string `json:"protocolVersion"`
		Arguments struct {
			Name string `json:"name"`
		} `json:"arguments"`
	} `json:"params"`
}

// serve answers one JSON object a line until there are no more.
func serve(in io.Reader, out io.Writer, dir string) error {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxMessage)
	for lines.Scan() {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil || m.ID == nil {
			continue // a notice
		}
		if err := json.NewEncoder(out).Encode(map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result(m, dir)}); err != nil {
			return exit.Unproven(err)
		}
	}
	return exit.Unproven(lines.Err())
}

// result is the answer to a message.
func result(m message, dir string) any {
	switch m.Method {
	case "initialize":
		return map[string]any{
			"protocolVersion": m.Params.Version, "capabilities": map[string]any{"tools": map[string]any{}},
			"serverInfo": map[string]any{"name": "probe", "version": "1"},
		}
	case "tools/list":
		return map[string]any{"tools": []any{map[string]any{
			"name": "mark", "description": "Makes a mark.", "inputSchema": map[string]any{
				"type": "object", "properties": map[string]any{"name": map[string]any{"type": "string"}}, "required": []string{"name"},
			},
		}}}
	case "tools/call":
		if _, mark, ok := hook.ReadProbe(m.Params.Arguments.Name); ok {
			_ = os.WriteFile(filepath.Join(dir, mark), nil, 0o600)
		}
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": "marked"}}}
	}
	return map[string]any{}
}
