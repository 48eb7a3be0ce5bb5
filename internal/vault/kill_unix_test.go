//go:build unix

package vault

import (
	"bufio"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"palyra/internal/vault/keeper"
	"palyra/secrets"
)

// writerDir is set for a process that changes a vault until it is killed.
const writerDir = "PALYRA_VAULT_WRITER"

// TestWriter is that process, and otherwise nothing.
func TestWriter(t *testing.T) {
	dir := os.Getenv(writerDir)
	if dir == "" {
		return
	}
	h := newHouse(t, dir)
	for i := rand.IntN(1000); ; i++ {
		name := fmt.Sprintf("k%d", i%5)
		switch i % 7 {
		case 3:
			h.ok(h.Rotate(t.Context(), "", text(""), ada))
			fmt.Println("rotated")
		case 5:
			other := keeper.KeyFile
			if s, err := h.Status(t.Context()); err == nil && s.Keeper == other {
				other = otherFiles
			}
			h.ok(h.Rotate(t.Context(), other, text(""), ada))
			fmt.Println("moved")
		case 6:
			if list, err := h.List(t.Context()); err == nil && len(list) > 0 {
				_, err := h.take(h.export(false), secrets.Anew, ada)
				h.ok(err)
				fmt.Println("anew")
			}
		default:
			value := fmt.Sprintf("value of %s at %d", name, time.Now().UnixNano())
			fmt.Println("begin", name, value)
			h.put(name, value)
			fmt.Println("put", name, value)
		}
	}
}

// A process that is killed while it puts, rotates, changes the keeper or begins anew from an export leaves
// every secret readable: the one that was on its way as it was or as it was to be.
func TestKilledWhileItChanges(t *testing.T) {
	rounds := 20
	if os.Getenv("PALYRA_FAULTS") == "full" {
		rounds = 300
	}
	dir := t.TempDir()
	held, done := map[string]string{}, map[string]int{}
	for round := range rounds {
		before := killed(t, dir, held, done, time.Duration(rand.IntN(40_000))*time.Microsecond)
		h := newHouse(t, dir)
		if s, err := h.Status(t.Context()); err != nil || s.State != secrets.Open {
			t.Fatalf("round %d: %+v, %v", round, s, err)
		}
		for name, want := range held {
			got, err := h.get(name)
			if err != nil || got != want && got != before[name] {
				t.Fatalf("round %d: %s: %q, %v, want %q", round, name, got, err, want)
			}
			held[name] = got
		}
		list, err := h.List(t.Context())
		h.ok(err)
		for _, i := range list {
			_, _, err := h.Get(t.Context(), i.Scope, i.Name, i.Version)
			h.ok(err)
		}
		keys, _ := filepath.Glob(filepath.Join(dir, "vault-*.key"))
		others, _ := filepath.Glob(filepath.Join(dir, "other", "vault-*.key"))
		if all := append(keys, others...); len(all) != 1 {
			t.Fatalf("round %d: the keys that are left are %q", round, all)
		}
		h.ok(h.db.Close())
	}
	if done["put"] < rounds/2 || done["rotated"] == 0 || done["moved"] == 0 || done["anew"] == 0 {
		t.Errorf("the processes changed too little: %v", done)
	}
}

// killed runs a writer and kills it a moment after its first change. It returns what was begun and not acknowledged.
func killed(t *testing.T, dir string, held map[string]string, done map[string]int, after time.Duration) (begun map[string]string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestWriter$")
	cmd.Env = append(os.Environ(), writerDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	begun = map[string]string{}
	var end *time.Timer
	for lines := bufio.NewScanner(out); lines.Scan(); {
		what, rest, _ := strings.Cut(lines.Text(), " ")
		name, value, _ := strings.Cut(rest, " ")
		switch what {
		case "begin":
			begun[name] = value
		case "put":
			held[name] = value
			delete(begun, name)
		case "rotated", "moved", "anew":
		default:
			t.Fatalf("the writer says %q", lines.Text())
		}
		done[what]++
		if end == nil && what != "begin" {
			end = time.AfterFunc(after, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
		}
	}
	if err := cmd.Wait(); !strings.Contains(fmt.Sprint(err), "killed") {
		t.Fatalf("the writer ended by itself: %v", err)
	}
	return begun
}
