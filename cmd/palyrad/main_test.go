package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func try(t *testing.T, ctx context.Context, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--version"}, 0, "palyrad dev"},
		{[]string{"--help"}, 0, "usage: palyrad"},
		{[]string{"--nonsense"}, 2, "usage: palyrad"},
		{[]string{"--set", "novalue"}, 2, "KEY=VALUE"},
		{[]string{"extra"}, 2, "usage: palyrad"},
	} {
		code, out, errs := try(t, t.Context(), c.args...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%v: %d, %s%s", c.args, code, out, errs)
		}
	}
}

func TestBadSettingIsRefusedWithARemedy(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	for _, set := range []string{"no.such=1", "approvals.wait_ms=soon", "approvals.wait_ms=-1"} {
		code, _, errs := try(t, t.Context(), "--home", home, "--set", set)
		if code != 1 || !strings.Contains(errs, "palyrad: ") || !strings.Contains(errs, "remedy: ") {
			t.Errorf("%s: %d, %s", set, code, errs)
		}
	}
	if _, err := os.Stat(filepath.Join(home, "state.db")); err == nil {
		t.Error("a state was made all the same")
	}
}
