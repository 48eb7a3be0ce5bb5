package connect

import (
	"path/filepath"
	"strings"
	"testing"
)

// A hook that came with a project and only looks like ours is never trusted in its place, and where two are the same to
// the byte, none is.
func TestOnlyOurHookIsTrusted(t *testing.T) {
	const ours = "/usr/bin/palyra hook codex || exit 2"
	file, off := filepath.Join(t.TempDir(), "hooks.json"), false
	is := func(command string) bool { return command == ours }
	mine := listed{Key: "mine", Source: file, Command: ours, Event: "preToolUse"}
	evil := listed{Key: "evil", Source: file, Command: "/tmp/evil # hook codex", Event: "preToolUse"}
	elsewhere := listed{Key: "elsewhere", Source: "/other/hooks.json", Command: ours, Event: "preToolUse"}
	start := listed{Key: "start", Source: file, Command: ours, Event: "sessionStart"}
	again, unnamed, stopped := mine, mine, mine
	again.Key, unnamed.Event, stopped.Enabled = "again", "", &off
	for name, c := range map[string]struct {
		all  []listed
		want string // its key, or a part of the error
	}{
		"one that looks like it":   {[]listed{evil, mine}, "mine"},
		"one of another event":     {[]listed{start, elsewhere, mine}, "mine"},
		"without events":           {[]listed{evil, unnamed}, "mine"},
		"only one that looks so":   {[]listed{evil, elsewhere}, "not in the list"},
		"two that are the same":    {[]listed{mine, again}, "not certain"},
		"one that is switched off": {[]listed{evil, stopped}, "switched off"},
	} {
		h, err := pick(c.all, file, is)
		if err != nil && (h.Key != "" || !strings.Contains(err.Error(), c.want)) || err == nil && h.Key != c.want {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}
