package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"palyra/internal/cli/invocation"
	"palyra/internal/cli/screen"
	"palyra/internal/cli/syntax"
	"palyra/internal/show"
)

// build identifies this program.
type build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// thisBuild reads the build information of the program.
func thisBuild(inv *invocation.Invocation) build {
	b := build{Version: inv.Version, Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	b.Version = cmp.Or(b.Version, "dev")
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Revision = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	return b
}

// String is the version on one line.
func (b build) String() string {
	return fmt.Sprintf("palyra %s %s/%s %s", show.Line(b.Version), b.OS, b.Arch, b.Go)
}

func versionCommand(inv *invocation.Invocation) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Say which version this is", Args: syntax.Takes(),
		Example: "  palyra version\n  palyra version --json",
		RunE: func(*cobra.Command, []string) error {
			b := thisBuild(inv)
			return inv.Emit(b, func(w io.Writer) {
				fmt.Fprintln(w, b)
				screen.Fields(w, screen.Pair{"revision", b.Revision}, screen.Pair{"built from", b.Time})
			})
		},
	}
}
