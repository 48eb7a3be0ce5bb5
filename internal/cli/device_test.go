//go:build linux

package cli

import (
	"bytes"
	"image"
	"image/color"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"

	"palyra/internal/cli/exit"
	"palyra/internal/cli/questiontest"
	"palyra/internal/cli/stagetest"
)

// openFar is a house whose daemon other machines can reach, and a second home that
// has no daemon: the other machine.
func openFar(t *testing.T) (there, here *house) {
	t.Helper()
	dir, err := os.MkdirTemp("", "palyra")
	stagetest.Fatal(t, err)
	t.Cleanup(func() {
		endDaemon(filepath.Join(dir, "there"))
		_ = os.RemoveAll(dir)
	})
	at := func(name string) *house {
		h := &house{t: t, home: filepath.Join(dir, name), work: filepath.Join(dir, name+"-work")}
		h.env = []string{"PALYRA_HOME=" + h.home, "NO_COLOR=1"}
		for _, d := range []string{h.home, h.work} {
			stagetest.Fatal(t, os.Mkdir(d, 0o700))
		}
		return h
	}
	there, here = at("there"), at("here")
	settings := "[remote]\nlisten = \"127.0.0.1:0\"\n[console]\nlisten = \"127.0.0.1:0\"\n[policy]\npreset = \"ask\"\n"
	stagetest.Fatal(t, os.WriteFile(filepath.Join(there.home, "config.toml"), []byte(settings), 0o600))
	there.palyra("up", "--detach", "--timeout", "150s")
	return there, here
}

// fails runs a command that must end with a code, and returns what it said.
func (h *house) fails(code int, args ...string) string {
	h.t.Helper()
	out, err := h.command(args...).CombinedOutput()
	if got := exitCodeOf(err); got != code {
		h.t.Errorf("palyra %s: exit %d, want %d\n%s", strings.Join(args, " "), got, code, out)
	}
	return string(out)
}

func exitCodeOf(err error) int {
	if exit, ok := err.(interface{ ExitCode() int }); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return -1
	}
	return 0
}

// scan reads the QR code on a screen as a camera would.
func scan(t *testing.T, text string) string {
	t.Helper()
	const size = 4
	var rows [][]bool // light or not, a module each
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasPrefix(line, "█") && !strings.HasPrefix(line, "▀") && !strings.HasPrefix(line, "▄") {
			continue
		}
		var upper, lower []bool
		for _, r := range line {
			upper, lower = append(upper, r == '█' || r == '▀'), append(lower, r == '█' || r == '▄')
		}
		rows = append(rows, upper, lower)
	}
	if len(rows) == 0 {
		t.Fatalf("no QR code:\n%s", text)
	}
	if last := len(rows) - 1; !slices.Contains(rows[last], true) { // the lower half of the last line
		rows = rows[:last]
	}
	img := image.NewGray(image.Rect(0, 0, len(rows[0])*size, len(rows)*size))
	for y := range img.Rect.Dy() {
		for x := range img.Rect.Dx() {
			if row := rows[y/size]; x/size < len(row) && row[x/size] {
				img.SetGray(x, y, color.Gray{Y: 255})
			}
		}
	}
	bits, err := gozxing.NewBinaryBitmapFromImage(img)
	stagetest.Fatal(t, err)
	got, err := qrcode.NewQRCodeReader().Decode(bits, nil)
	if err != nil { // in one code of sixty this reader takes something else for a mark of the code's: it is given the modules
		pure := map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true}
		got, err = qrcode.NewQRCodeReader().Decode(bits, pure)
	}
	if err != nil {
		t.Fatalf("it cannot be scanned: %v\n%s", err, text)
	}
	return got.GetText()
}

// The whole way at two terminals: the code is shown, a wrong PIN may be typed
// again, both sides show the same key, and a typed word lets the device in.
func TestPairingAtTwoTerminals(t *testing.T) {
	there, here := openFar(t)
	pair := there.at("device", "pair", "--role", "owner")
	pair.Expect("Waiting; Ctrl-C withdraws it.")
	screen := pair.Seen.String()
	pin := regexp.MustCompile(`PIN    (\d{4} \d{4})\r?\n`).FindStringSubmatch(screen)
	code := regexp.MustCompile(`Code   (palyra-pair:1\?\S+)`).FindStringSubmatch(screen)
	address := regexp.MustCompile(`palyra device join (\S+)`).FindStringSubmatch(screen)
	if pin == nil || code == nil || address == nil {
		t.Fatalf("no code on the screen:\n%s", screen)
	}
	if got := scan(t, screen); got != code[1] {
		t.Errorf("the QR code says %q, the text %q", got, code[1])
	}
	wrong := strings.Map(func(r rune) rune {
		if r == ' ' {
			return r
		}
		return '0' + (r-'0'+1)%10
	}, pin[1])
	join := here.at("device", "join", address[1], "--as", "work", "--name", "laptop")
	join.ExpectSecret("PIN that the daemon shows: ")
	join.Send(wrong + "\r")
	join.Expect("the code is wrong; 2 of 3 tries are left")
	join.ExpectSecret("PIN that the daemon shows: ")
	join.Send(pin[1] + "\r")
	join.Expect("the code is right")
	if strings.Contains(join.Seen.String(), pin[1]) {
		t.Errorf("the PIN is on the screen:\n%s", join.Seen.String())
	}
	pair.Expect("Type allow to allow once, deny to deny (Ctrl-C withdraws the code)")
	for _, want := range []string{
		"A machine at 127.0.0.1:", "(1 of 5)", "laptop at 127.0.0.1", "knows the code",
		keyOn(t, join.Seen.String()), "palyra.device.pair",
	} {
		if !strings.Contains(pair.Seen.String(), want) {
			t.Errorf("no %q on the screen:\n%s", want, pair.Seen.String())
		}
	}
	pair.Send("y\n")
	pair.Expect("is neither allow nor deny")
	pair.Send("allow\n")
	pair.Expect("Paired: laptop (dev-")
	if c, d := pair.End(), join.End(); c != exit.OK || d != exit.OK || !strings.Contains(join.Seen.String(), "palyra --remote work status") {
		t.Errorf("exits %d and %d\n%s", c, d, join.Seen.String())
	}
	// That join looked whether anybody is there cost nothing: one try failed.
	if failed := there.palyra("journal", "tail", "--kind", "pairing.failed", "--json"); strings.Count(failed, "\n") != 1 ||
		!strings.Contains(failed, "pairing_wrong_code") {
		t.Errorf("%s", failed)
	}
	useElsewhere(t, there, here)
}

func keyOn(t *testing.T, screen string) string {
	t.Helper()
	print := regexp.MustCompile(`key is +((?:[0-9A-F]{4} ){7}[0-9A-F]{4})`).FindStringSubmatch(screen)
	if print == nil {
		t.Fatalf("no key on the screen:\n%s", screen)
	}
	return print[1]
}

// useElsewhere is a day in the life of a paired machine.
func useElsewhere(t *testing.T, there, here *house) {
	t.Helper()
	there.palyra("workspace", "add", there.work)
	far := func(args ...string) string { return here.palyra(append([]string{"--remote", "work"}, args...)...) }
	if me := far("access", "whoami", "--json"); digOne(t, me, "credential") != "device" || digOne(t, me, "role") != "owner" {
		t.Errorf("%s", me)
	}
	if me := far("access", "whoami", "--agent", "--json"); digOne(t, me, "principal") != "agent:device.laptop" {
		t.Errorf("%s", me)
	}
	// A call from here waits there; the answer from here is signed by the device.
	call := here.stream("--remote", "work", "tools", "call", "palyra.fs.write", "--input", aWrite, "--workspace", there.work, "--json")
	id, digest := there.pendingID()
	decided := far("approvals", "decide", id, "allow", "--digest", digest, "--json")
	if digOne(t, decided, "decision.votes.0.separation") != "none" { // who asked lives where the key lies
		t.Errorf("%s", decided)
	}
	call.until(`"outcome":"finished"`)
	_ = call.cmd.Wait()
	// Where another machine asks, the device's key is a thing apart.
	asked := there.stream("tools", "call", "palyra.fs.write", "--input", strings.ReplaceAll(aWrite, "a.txt", "b.txt"), "--json")
	id, digest = there.pendingID()
	if decided := far("approvals", "decide", id, "allow", "--digest", digest, "--json"); digOne(t, decided,
		"decision.votes.0.separation") != "device" {
		t.Errorf("%s", decided)
	}
	asked.until(`"outcome":"finished"`)
	_ = asked.cmd.Wait()
	if !there.wrote("a.txt") || here.wrote("a.txt") {
		t.Error("it was not written there")
	}
	// What one stands in here means nothing there.
	for _, args := range [][]string{
		{"exec", "--", "true"},
		{"agent", "run", "--", "true"},
		{"tools", "call", "palyra.echo"},
		{"policy", "why", "--tool", "palyra.echo"},
		{"run", "--script", os.DevNull},
	} {
		if said := here.fails(exit.Usage, append([]string{"--remote", "work"}, args...)...); !strings.Contains(said, "--workspace is required") {
			t.Errorf("%v: %s", args, said)
		}
	}
	for _, args := range [][]string{{"workspace", "add", "."}, {"workspace", "remove", "x"}, {"exec", "-w", "x", "--", "true"}} {
		if said := here.fails(exit.Usage, append([]string{"--remote", "work"}, args...)...); !strings.Contains(said, "is no whole path") {
			t.Errorf("%v: %s", args, said)
		}
	}
	for _, args := range []string{
		"status", "runs list", "tools list", "approvals list", "approvals export", "grants list", "sessions list",
		"calls list", "workspace list", "agent list", "operator list",
		"access user list", "access token list", "access roles", "device list", "device show laptop", "keys list",
		"keys export", "journal tail --limit 1",
		"journal export", "journal verify", "policy show", "policy snapshot", "sandbox posture", "console",
		"tools call palyra.echo --input {\"text\":\"x\"} -w " + there.work,
	} {
		far(strings.Fields(args)...)
	}
	stagetest.Fatal(t, os.WriteFile(filepath.Join(here.work, "s.yaml"), []byte(
		"title: t\nturns:\n  - calls:\n      - {tool: palyra.echo, with: {text: x}, expect: finished}\n"), 0o600))
	far("run", "--script", "s.yaml", "-w", there.work)
	here.fails(exit.Refused, "--remote", "work", "exec", "--no-wait", "--no-stdin", "-w", there.work, "--", "true")
	// Codes can be shown from here as well; hanging up withdraws them.
	pair := here.stream("--remote", "work", "device", "pair", "--json")
	pair.until(`"code"`)
	stagetest.Fatal(t, pair.cmd.Process.Signal(os.Interrupt))
	if err := pair.cmd.Wait(); exitCodeOf(err) != exit.Cancelled {
		t.Error(err)
	}
	var shapes bytes.Buffer
	for _, args := range []string{"device list", "device show laptop", "device remotes", "device renew", "console"} {
		writeShape(t, &shapes, args, far(append(strings.Fields(args), "--json")...))
	}
	renewedInTime(t, here)
	// By its own hand; it is the last one, so the door closes behind it.
	if said, err := here.command("--remote", "work", "device", "revoke", "laptop").CombinedOutput(); err != nil &&
		!strings.Contains(string(said), "as it does when a device is revoked") {
		t.Errorf("%v\n%s", err, said)
	}
	writeShape(t, &shapes, "device show (revoked)", there.palyra("device", "show", "laptop", "--json"))
	questiontest.Golden(t, "shapes-device.txt", shapes.String())
	if list := there.palyra("device", "list"); !strings.Contains(list, "revoked 2") {
		t.Errorf("%s", list)
	}
	here.fails(exit.NoDaemon, "--remote", "work", "status")
}

// renewedInTime uses the remote when two thirds of its certificate's life are over:
// whatever the command is, there is a new certificate afterwards.
func renewedInTime(t *testing.T, here *house) {
	t.Helper()
	serial := func() string { return digOne(t, here.palyra("device", "remotes", "--json"), "remotes.0.device.serial") }
	at := func(ahead time.Duration) string {
		var out, errs bytes.Buffer
		env := append(here.env, "PALYRA_REMOTE=work")
		code := Main(t.Context(), Process{
			Args: []string{"status"}, Env: env, Stdout: &out, Stderr: &errs,
			Now: func() time.Time { return time.Now().Add(ahead) },
		})
		if code != exit.OK || errs.String() != "" {
			t.Errorf("exit %d\n%s", code, errs.String())
		}
		return serial()
	}
	const day = 24 * time.Hour
	first := serial()
	if second := at(10 * day); second != first {
		t.Error("renewed too early")
	}
	if third := at(25 * day); third == first {
		t.Error("not renewed in time")
	}
}

// Ctrl-C takes the code back: it is good for nobody afterwards.
func TestPairingWithdrawn(t *testing.T) {
	there, here := openFar(t)
	pair := there.at("device", "pair", "--no-qr")
	pair.Expect("Waiting; Ctrl-C withdraws it.")
	if strings.Contains(pair.Seen.String(), "█") {
		t.Error("a QR code in spite of --no-qr")
	}
	code := regexp.MustCompile(`Code   (palyra-pair:1\?\S+)`).FindStringSubmatch(pair.Seen.String())
	if busy := there.fails(exit.Failure, "device", "pair"); !strings.Contains(busy, "another pairing") {
		t.Errorf("%s", busy)
	}
	pair.Send("\x03")
	if got := pair.End(); got != exit.Cancelled || !strings.Contains(pair.Seen.String(), "the code is withdrawn; nothing was paired") {
		t.Errorf("exit %d\n%s", got, pair.Seen.String())
	}
	here.fails(exit.Failure, "device", "join", "--code", code[1])
	if out := here.palyra("device", "remotes", "--json"); !strings.Contains(out, `"remotes":[]`) {
		t.Errorf("%s", out)
	}
	noRemotes(t, here)
}

// One of two devices is revoked: it is told so at once, and the other stays.
func TestRevokedDevice(t *testing.T) {
	there, here := openFar(t)
	here.join(there, "one")
	here.join(there, "two")
	if out := there.palyra("device", "revoke", "one", "--json"); digOne(t, out, "revoked_by") == "" {
		t.Errorf("%s", out)
	}
	if said := here.fails(exit.Unauthorised, "--remote", "one", "status"); !strings.Contains(said, "revoked") {
		t.Errorf("%s", said)
	}
	here.palyra("--remote", "two", "status")
	// Its name is not given again, and both sides say so.
	pair := there.stream("device", "pair", "--json")
	join := here.command("device", "join", "--code", "-", "--as", "again", "--name", "one")
	join.Stdin = strings.NewReader(digOne(t, pair.until(`"code"`), "code") + "\n")
	said, err := join.CombinedOutput()
	if exitCodeOf(err) != exit.Failure || strings.Contains(string(said), "a person") || !strings.Contains(string(said), "--name OTHER") {
		t.Errorf("%v\n%s", err, said)
	}
	pair.until(`"reason_code":"already_exists"`)
	if err := pair.cmd.Wait(); exitCodeOf(err) != exit.Failure {
		t.Error(err)
	}
	// What is over can be forgotten, by its name alone.
	here.fails(exit.Failure, "device", "forget", "../remotes/one")
	if out := here.palyra("device", "forget", "one", "--json"); digOne(t, out, "name") != "one" {
		t.Errorf("%s", out)
	}
	if list := here.palyra("device", "remotes"); strings.Contains(list, "one ") || !strings.Contains(list, "has not ended") {
		t.Errorf("%s", list)
	}
	asked := digOne(t, here.palyra("--remote", "two", "approvals", "list", "--json"), "approvals.0.approval_id")
	for _, said := range []string{
		here.fails(exit.Failure, "--remote", "two", "approvals", "decide", asked, "allow"),
		here.fails(exit.Usage, "--remote", "two", "policy", "why", "--tool", "palyra.echo"),
	} {
		if !strings.Contains(said, "palyra --remote two ") {
			t.Errorf("%s", said)
		}
	}
	if said := here.fails(exit.Unauthorised, "--remote", "two", "journal", "tail"); !strings.Contains(said,
		"the device two has the role approver") || !strings.Contains(said, "--role auditor") {
		t.Errorf("%s", said)
	}
	// A device that is not an owner's may not end itself either, and is told so.
	here.fails(exit.Unauthorised, "--remote", "two", "device", "revoke", "two")
	// The door closes behind the last device; that nobody answers may be that.
	there.palyra("device", "revoke", "two")
	if said := here.fails(exit.NoDaemon, "--remote", "two", "status"); !strings.Contains(said, "or this machine was revoked") {
		t.Errorf("%s", said)
	}
	forgot, err := here.command("device", "forget", "two").CombinedOutput()
	if err != nil || !strings.Contains(string(forgot), "there: palyra device revoke two\n") {
		t.Errorf("%v\n%s", err, forgot)
	}
}

// join pairs h with there under a name, with nobody at a terminal.
func (h *house) join(there *house, name string) {
	h.t.Helper()
	pair := there.stream("device", "pair", "--json")
	code := digOne(h.t, pair.until(`"code"`), "code")
	join := h.command("device", "join", "--code", "-", "--as", name, "--name", name)
	join.Stdin = strings.NewReader(code + "\n")
	stagetest.Fatal(h.t, join.Start())
	id, digest := there.pendingID()
	there.palyra("approvals", "decide", id, "allow", "--digest", digest)
	stagetest.Fatal(h.t, join.Wait())
	pair.until(`"state":"paired"`)
	stagetest.Fatal(h.t, pair.cmd.Wait())
}

// A no at the terminal is a no at both ends.
func TestPairingDenied(t *testing.T) {
	there, here := openFar(t)
	pair := there.at("device", "pair")
	pair.Expect("Waiting; Ctrl-C withdraws it.")
	code := regexp.MustCompile(`Code   (palyra-pair:1\?\S+)`).FindStringSubmatch(pair.Seen.String())
	join := here.at("device", "join", "--code", code[1])
	pair.Expect("Type allow to allow once")
	pair.Send("deny\n")
	// The door closes with the code; where that is quicker than the words, the
	// other side only sees that it broke off.
	if c, d := pair.End(), join.End(); c != exit.Approval || d != exit.Approval && d != exit.Failure {
		t.Errorf("exits %d and %d\n%s\n%s", c, d, pair.Seen.String(), join.Seen.String())
	}
	noRemotes(t, here)
	if out := there.palyra("device", "list", "--json"); !strings.Contains(out, `"devices":[]`) {
		t.Errorf("%s", out)
	}
}
