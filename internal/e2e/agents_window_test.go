//go:build agents

package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// window is a program in a terminal of its own.
type window struct {
	s      *stage
	socket string
	seen   string
	kept   strings.Builder // every screen that was not like the one before
}

// inWindow runs a program in a window. look is shown the screen twice a second and says
// which keys are pressed, one after the other, and whether that was all.
func (s *stage) inWindow(ctx context.Context, env []string, line string, look func(screen string) (keys []string, done bool)) ([]byte,
	error,
) {
	s.windows++
	w := &window{s: s, socket: fmt.Sprintf("palyra-%s-%d", filepath.Base(s.home), s.windows)}
	defer w.tmux("kill-server")
	cmd := exec.Command("tmux", "-L", w.socket, "new-session", "-d", "-x", "120", "-y", "45", "cd "+s.work+"; "+line+"; sleep 1000")
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		return out, err
	}
	defer w.keep()
	var typed time.Time
	for ctx.Err() == nil {
		<-time.After(500 * time.Millisecond)
		screen := w.screen()
		keys, done := look(screen)
		if done {
			return []byte(screen), nil
		}
		if len(keys) > 1 && time.Since(typed) < 10*time.Second { // it takes a while until a model is asked
			continue
		}
		if len(keys) > 1 {
			typed = time.Now()
		}
		for _, k := range keys {
			w.tmux("send-keys", k)
			<-time.After(time.Second)
		}
	}
	return []byte(w.screen()), ctx.Err()
}

func (w *window) tmux(args ...string) string {
	out, _ := exec.Command("tmux", append([]string{"-L", w.socket}, args...)...).CombinedOutput()
	return string(out)
}

// screen is what a person sees.
func (w *window) screen() string {
	var lines []string
	for l := range strings.Lines(w.tmux("capture-pane", "-p")) {
		if l = strings.TrimRight(l, " \n"); l != "" {
			lines = append(lines, l)
		}
	}
	screen := strings.Join(lines, "\n")
	if screen != w.seen {
		w.seen = screen
		fmt.Fprintf(&w.kept, "---- %s\n%s\n", time.Now().Format("15:04:05.0"), screen)
	}
	return screen
}

// keep adds the screens to a file beside the table.
func (w *window) keep() {
	name := filepath.Join(w.s.table.dir, w.s.way, "screens.txt")
	_ = os.MkdirAll(filepath.Dir(name), 0o755)
	f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return
	}
	fmt.Fprintf(f, "==== %s\n%s", w.s.now, w.kept.String())
	_ = f.Close()
}

// lineWith is the line of a screen that has a text in it.
func lineWith(screen, text string) string {
	for l := range strings.Lines(screen) {
		if strings.Contains(l, text) {
			return strings.TrimSpace(l)
		}
	}
	return ""
}
