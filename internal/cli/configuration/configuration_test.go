package configuration

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"palyra/internal/cli/invocation"
)

func TestSettingText(t *testing.T) {
	if settingText([]string{"a", "b"}) != "a, b" || settingText(int64(5)) != "5" || settingText("x") != "x" {
		t.Error("settingText")
	}
}

func TestBwrapIsChecked(t *testing.T) {
	dir := t.TempDir()
	plain, set, file := filepath.Join(dir, "plain"), filepath.Join(dir, "set"), filepath.Join(dir, "file")
	for path, mode := range map[string]os.FileMode{plain: 0o755, set: 0o755 | os.ModeSetuid, file: 0o644} {
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(system string, env ...string) string {
		inv := &invocation.Invocation{Env: append(env, "PALYRA_HOME="+dir)}
		var said []string
		for _, p := range bwrapProblems(inv, system) {
			said = append(said, p.String())
		}
		return strings.Join(said, "\n")
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none"): "apt install bubblewrap", set: "chmod ug-s", file: "is no program",
		dir: "is no program", plain: "",
	} {
		if got := check("linux", "PALYRA_PROCESS_BWRAP="+path); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: %q", path, got)
		}
	}
	if got := check("darwin", "PALYRA_PROCESS_BWRAP="+set) + check("linux", "PALYRA_PROCESS_BWRAP="+set, "PALYRA_PROCESS_TIER=b"); got != "" {
		t.Errorf("where nothing needs it: %s", got)
	}
}
