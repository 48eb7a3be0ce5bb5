//go:build linux

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"palyra"
	"palyra/client"
)

// first is what the tests' daemon is called on the other machines.
const first = "first"

// elsewhere is another machine: a home of its own and nothing of the daemon's.
type elsewhere struct {
	t    testing.TB
	home string
	in   []string // what runs a command in its network; empty: this one
}

func newElsewhere(t testing.TB) *elsewhere {
	t.Helper()
	return &elsewhere{t: t, home: t.TempDir()}
}

// command is the built command there.
func (m *elsewhere) command(args ...string) *exec.Cmd {
	m.t.Helper()
	argv := append(append([]string{}, m.in...), append([]string{bin(m.t, "palyra")}, args...)...)
	cmd := exec.CommandContext(m.t.Context(), argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "PALYRA_HOME="+m.home)
	return cmd
}

// palyra runs the command there and returns what it printed.
func (m *elsewhere) palyra(args ...string) (out, problem string, err error) {
	m.t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := m.command(args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// must is palyra for a command that has no reason to fail.
func (m *elsewhere) must(args ...string) string {
	m.t.Helper()
	out, problem, err := m.palyra(args...)
	if err != nil {
		m.t.Fatalf("palyra %s: %v\n%s%s", strings.Join(args, " "), err, out, problem)
	}
	return out
}

// refused runs the command there and sees that it fails for a reason.
func (m *elsewhere) refused(want palyra.Reason, args ...string) {
	m.t.Helper()
	if got, said := m.fails(args...); got != want {
		m.t.Errorf("palyra %s: want %s, got %q\n%s", strings.Join(args, " "), want, got, said)
	}
}

// fails runs the command there and returns the reason why it fails; "" when it
// does not.
func (m *elsewhere) fails(args ...string) (palyra.Reason, string) {
	m.t.Helper()
	out, problem, err := m.palyra(append(args, "--json")...)
	var said struct {
		Error struct {
			Reason palyra.Reason `json:"reason_code"`
		} `json:"error"`
	}
	if err == nil || json.Unmarshal([]byte(problem), &said) != nil {
		return "", out + problem
	}
	return said.Error.Reason, problem
}

// cutOff sees that a device that was ended is told so. What refuses it is the
// handshake, which has one word for all that is wrong with a certificate.
func (m *elsewhere) cutOff(args ...string) {
	m.t.Helper()
	if got, said := m.fails(args...); got != palyra.ReasonDeviceRevoked {
		m.t.Errorf("palyra %s: got %q\n%s", strings.Join(args, " "), got, said)
	}
}

// client is a client of the first daemon there.
func (m *elsewhere) client(door client.Door) *client.Client {
	m.t.Helper()
	r, err := client.LoadRemote(filepath.Join(m.home, "remotes"), first)
	if err != nil {
		m.t.Fatal(err)
	}
	cfg := client.Config{Remote: r, Door: door}
	if door == client.OperatorDoor {
		cfg.Signer = r.Signer()
	}
	c, err := client.Open(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() { _ = c.Close() })
	return c
}

// join pairs the machine with the first daemon, by what a code says.
func (m *elsewhere) join(ctx context.Context, name string, q client.JoinRequest) (*client.Remote, error) {
	q.Dir, q.Name, q.Device = filepath.Join(m.home, "remotes"), first, name
	return client.Join(ctx, q)
}

// byPIN is a join request with a PIN.
func byPIN(address, pin string) client.JoinRequest {
	return client.JoinRequest{Address: address, PIN: func() (palyra.Secret, error) { return palyra.NewSecret([]byte(pin)), nil }}
}

// offer is a code that a daemon shows, and what becomes of it.
type offer struct {
	palyra.Pairing // the first report, with the code
	t              testing.TB
	news           chan palyra.Pairing
	end            chan error
	withdraw       context.CancelFunc
	last           palyra.Pairing
}

// offer shows a code for a device of p, or of the owner.
func (d *daemon) offer(p palyra.Principal, role palyra.Role) *offer {
	d.t.Helper()
	o, err := d.offerBy(d.client(client.OperatorDoor), p, role)
	if err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return o
}

func (d *daemon) offerBy(c *client.Client, p palyra.Principal, role palyra.Role) (*offer, error) {
	ctx, cancel := context.WithTimeout(d.t.Context(), 3*time.Minute)
	o := &offer{t: d.t, news: make(chan palyra.Pairing, 64), end: make(chan error, 1), withdraw: cancel}
	go func() {
		o.end <- c.PairDevice(ctx, p, role, func(now palyra.Pairing) error {
			o.news <- now
			return nil
		})
		close(o.news)
	}()
	now, ok := <-o.news
	if !ok {
		cancel()
		return nil, <-o.end
	}
	o.Pairing, o.last = now, now
	d.t.Cleanup(cancel)
	return o, nil
}

// until waits for a report that is wanted. Without one it returns the last.
func (o *offer) until(want func(palyra.Pairing) bool) (palyra.Pairing, bool) {
	for now := range o.news {
		o.last = now
		if want(now) {
			return now, true
		}
	}
	return o.last, false
}

// over waits for the end and returns the last report.
func (o *offer) over() palyra.Pairing {
	o.until(func(palyra.Pairing) bool { return false })
	return o.last
}

// gone withdraws the code and returns when it is.
func (o *offer) gone() {
	o.withdraw()
	o.over()
	<-o.end
}

// approval waits until a person is asked.
func (o *offer) approval() palyra.ApprovalID {
	o.t.Helper()
	now, ok := o.until(func(p palyra.Pairing) bool { return p.Approval != "" })
	if !ok {
		o.t.Fatalf("nobody was asked: %+v", now)
	}
	return now.Approval
}

// joined is how a join ended.
type joined struct {
	remote *client.Remote
	err    error
}

// joining joins on its own goroutine.
func (m *elsewhere) joining(ctx context.Context, name string, q client.JoinRequest) <-chan joined {
	ch := make(chan joined, 1)
	go func() {
		r, err := m.join(ctx, name, q)
		ch <- joined{r, err}
	}()
	return ch
}

// answer decides a question as whoever c is.
func answerTo(ctx context.Context, c *client.Client, id palyra.ApprovalID, yes palyra.Answer) error {
	a, err := c.Approval(ctx, id)
	if err != nil {
		return err
	}
	r := client.DecideRequest{ID: id, Answer: yes, Digest: a.PlanDigest}
	if yes == palyra.AnswerAllow {
		r.Scope = palyra.ScopeOnce
	}
	_, err = c.Decide(ctx, r)
	return err
}

// pairing is a whole pairing by the scanned code; it stops at the first error.
func (d *daemon) pairing(ctx context.Context, m *elsewhere, name string, p palyra.Principal, role palyra.Role) error {
	person := d.client(client.OperatorDoor)
	o, err := d.offerBy(person, p, role)
	if err != nil {
		return err
	}
	defer o.withdraw()
	ch := m.joining(ctx, name, client.JoinRequest{Code: o.Code})
	now, ok := o.until(func(p palyra.Pairing) bool { return p.Approval != "" })
	if !ok {
		return errors.Join(errors.New("nobody was asked"), <-o.end, (<-ch).err)
	}
	if err := answerTo(ctx, person, now.Approval, palyra.AnswerAllow); err != nil {
		return err
	}
	j := <-ch
	o.over()
	return errors.Join(j.err, <-o.end)
}

// paired is another machine that is a device of the daemon.
func (d *daemon) paired(name string, p palyra.Principal, role palyra.Role) *elsewhere {
	d.t.Helper()
	m := newElsewhere(d.t)
	if err := d.pairing(d.t.Context(), m, name, p, role); err != nil {
		d.t.Fatalf("%v\n%s", err, d.log)
	}
	return m
}

// device returns one, as the owner sees it.
func (d *daemon) device(name string) palyra.Device {
	d.t.Helper()
	dev, err := d.client(client.OperatorDoor).Device(d.t.Context(), name)
	if err != nil {
		d.t.Fatal(err)
	}
	return dev
}

// lines returns the bodies of the journal's lines of a kind.
func (d *daemon) lines(kind string) (all []map[string]any) {
	d.t.Helper()
	for _, e := range d.entries() {
		if e.Kind == kind {
			all = append(all, e.Body)
		}
	}
	return all
}

// nowhere fails the test when a secret stands in what the daemon keeps, in its
// journal or in what it logged. It restarts the daemon.
func (d *daemon) nowhere(secrets ...string) {
	d.t.Helper()
	var all []*regexp.Regexp
	for _, s := range secrets {
		if len(s) < 8 {
			d.t.Fatalf("%q is no secret", s)
		}
		// digits may stand in a longer number by chance
		all = append(all, regexp.MustCompile(`(^|[^0-9A-Za-z])`+regexp.QuoteMeta(s)+`($|[^0-9A-Za-z])`))
	}
	look := func(where string, raw []byte) {
		for i, s := range all {
			if s.Match(raw) {
				d.t.Errorf("%s holds %q", where, secrets[i])
			}
		}
	}
	files := 0
	err := filepath.WalkDir(d.home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		files++
		look(path, raw)
		return err
	})
	if err != nil || files < 5 {
		d.t.Errorf("%d files, %v", files, err)
	}
	for _, e := range d.entries() {
		line, _ := json.Marshal(e)
		look("the journal", line)
	}
	d.stop()
	look("the log", d.log.Bytes())
	d.mustStart(d.env...)
}

// key is the device's own secret, as its file holds it.
func (m *elsewhere) key() string {
	m.t.Helper()
	raw, err := os.ReadFile(filepath.Join(m.home, "remotes", first, "device.key"))
	if err != nil {
		m.t.Fatal(err)
	}
	var file struct {
		Seed string `json:"seed"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		m.t.Fatal(err)
	}
	return file.Seed
}

// reason is an error's reason; "" for none.
func reason(err error) palyra.Reason {
	if err == nil {
		return ""
	}
	return palyra.AsError(err).Reason
}
