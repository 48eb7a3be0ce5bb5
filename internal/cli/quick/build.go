package quick

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"

	"palyra/internal/show"
)

// Build identifies this program.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision"`
	Time     string `json:"time"`
	Modified bool   `json:"modified"`
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
}

// ThisBuild reads the build information of the program.
func ThisBuild(version string) Build {
	b := Build{Version: cmp.Or(version, "dev"), Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
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
func (b Build) String() string {
	return fmt.Sprintf("palyra %s %s/%s %s", show.Line(b.Version), b.OS, b.Arch, b.Go)
}

// Print prints it for people.
func (b Build) Print(w io.Writer) {
	fmt.Fprintln(w, b)
	for _, line := range [][2]string{{"revision", b.Revision}, {"built from", b.Time}} {
		if line[1] != "" {
			fmt.Fprintf(w, "%-10s  %s\n", line[0], show.Line(line[1]))
		}
	}
}
