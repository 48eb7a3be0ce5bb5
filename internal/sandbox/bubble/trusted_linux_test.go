package bubble

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/trusted"
)

// TestBackendHoldsTrusted: of the one list that policy guards by, a run leaves
// nothing behind that it made, at any depth and in any case, and changes nothing
// that was there.
func TestBackendHoldsTrusted(t *testing.T) {
	eachResident(t, func(t *testing.T, who resident) {
		b := openBackend(t, configOf(t))
		fresh, old := newSite(t, who), newSite(t, who)
		fresh.repository()
		var made, there []string
		for _, name := range trusted.With(trusted.Held) {
			if strings.HasPrefix(name, ".git/") || strings.HasPrefix(name, trusted.Repository) || strings.HasSuffix(name, "/") {
				continue // the other tests are about these
			}
			p := strings.ReplaceAll(name, "*", "x")
			made = append(made, p, "sub/dir/"+strings.ToUpper(p), "a b/"+p)
			old.dir(filepath.Dir(filepath.Join("old", p)))
			if !exists(filepath.Join(old.workspace, "old", p)) {
				old.file(filepath.Join("old", p), "person's\n")
				there = append(there, filepath.Join("old", p))
			}
		}
		fresh.file("list", strings.Join(made, "\n")+"\n")
		runJob(t, b, fresh.job("/bin/sh", "-c", `while read -r p; do mkdir -p "$(dirname "$p")"; echo evil > "$p"; done < list`))
		for _, p := range made {
			if fi, err := os.Lstat(filepath.Join(fresh.workspace, p)); err == nil && fi.Mode().IsRegular() {
				t.Errorf("%s remains", p)
			}
		}
		old.file("list", strings.Join(there, "\n")+"\n")
		runJob(t, b, old.job("/bin/sh", "-c", `while read -r p; do echo evil >> "$p"; rm -f "$p"; mv "$p" gone; ln -sf /etc/passwd "$p"; done < list 2>/dev/null; mv old new; true`))
		for _, p := range there {
			if got, err := os.ReadFile(filepath.Join(old.workspace, p)); string(got) != "person's\n" {
				t.Errorf("%s is %q, %v", p, got, err)
			}
		}
	})
}
