// Command palyra-verify checks Palyra's evidence without Palyra: it shares no code with the daemon and uses the
// standard library only, so that trust in the evidence does not rest on the program that made it.
//
// attestation.go checks attestations and outcomes, passkey.go answers that were given with one, changes.go the list of a
// run's changes, posture.go postures, journal.go journal exports and proofs, plain.go that keys which only deny did no more;
// docs/formats.md describes these formats. The command exits 0 when the evidence holds, 1 when it does not, 2 when the
// command line was wrong.
package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

const usage = `usage: palyra-verify --key KEY|FILE [--operator-key PUB]… [--changes LIST] [--json] FILE|-

Checks an attestation, an outcome with one, a posture, a journal export or a journal proof. KEY is a base64 Ed25519 public key or
a verifier line (name+hash+key), FILE for --key the output of 'palyra keys export'. Without --operator-key the
approvers' signatures are checked, not whose keys they are. LIST is the list of what a
run changed: it is held against the attestation.
`

var errUnread = errors.New("the evidence cannot be read")

const maxInput = 64 << 20 // of anything but a journal export, which is read line by line

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// trust is the keys given on the command line.
type trust struct {
	daemon, operators []ed25519.PublicKey
	journal           []named
	changes           string // file with the list of a run's changes; empty: none is checked
}

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	var t trust
	flags := flag.NewFlagSet("palyra-verify", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { _, _ = fmt.Fprint(stderr, usage) }
	asJSON := flags.Bool("json", false, "")
	flags.Func("key", "", t.add)
	flags.StringVar(&t.changes, "changes", "", "")
	flags.Func("operator-key", "", func(s string) error {
		pub, err := approverKey(s)
		t.operators = append(t.operators, pub)
		return err
	})
	if slices.Contains([]string{"-h", "-help", "--help"}, strings.Join(args, " ")) {
		_, _ = fmt.Fprint(stdout, usage)
		return 0
	}
	if flags.Parse(args) != nil {
		return 2
	}
	if flags.NArg() != 1 || len(t.daemon)+len(t.journal) == 0 {
		flags.Usage()
		return 2
	}
	in := stdin
	if name := flags.Arg(0); name != "-" {
		f, err := os.Open(name)
		if err != nil {
			_, _ = fmt.Fprintln(stderr, "palyra-verify:", err)
			return 2
		}
		defer func() { _ = f.Close() }()
		in = f
	}
	facts, err := t.check(in)
	if err == nil && t.changes != "" {
		err = t.checkChanges(facts)
	}
	if errors.Is(err, errUnread) {
		_, _ = fmt.Fprintln(stderr, "palyra-verify:", err)
		return 2
	}
	report(stdout, *asJSON, facts, err)
	if err != nil {
		return 1
	}
	return 0
}

// checkChanges checks the list that was given beside an attestation.
func (t trust) checkChanges(facts object) error {
	if facts["kind"] != "attestation" {
		return errNoAttestation
	}
	f, err := os.Open(t.changes)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	defer func() { _ = f.Close() }()
	list, err := io.ReadAll(io.LimitReader(f, maxInput))
	if err != nil {
		return fmt.Errorf("%w: %w", errUnread, err)
	}
	if err := verifyChanges(list, facts); err != nil {
		return err
	}
	facts["changes_list"] = "is the attested one"
	return nil
}

// check finds out what the evidence is and checks it.
func (t trust) check(stdin io.Reader) (object, error) {
	in := bufio.NewReader(stdin)
	if start, _ := in.Peek(len(exportStart)); string(start) == exportStart {
		return verifyExport(in, t.journal)
	}
	raw, err := io.ReadAll(io.LimitReader(in, maxInput+1))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errUnread, err)
	}
	if len(raw) > maxInput {
		return nil, fmt.Errorf("the evidence is larger than %d bytes", maxInput)
	}
	var proof struct{ Format string }
	if json.Unmarshal(raw, &proof) == nil && proof.Format == proofFormat {
		return verifyProof(raw, t.journal)
	}
	if isPosture(raw) {
		return verifyPosture(raw, t.daemon)
	}
	if isShownForm(raw) {
		return nil, errors.New("this is what --json of a showing command prints; give what is signed: 'palyra attest show REF " +
			"--envelope', 'palyra sandbox posture DIGEST --envelope'")
	}
	p, err := verify(raw, t.daemon, t.operators)
	if err != nil {
		return nil, err
	}
	p["kind"], p["operators_pinned"] = "attestation", len(t.operators) > 0
	if d, _ := p["decision"].(object); d["reused"] == true {
		p["reused"], p["plan_shown"] = true, d["plan_digest"]
	}
	return p, nil
}

// isShownForm reports whether raw is an attestation or posture in the form shown to people, with
// the envelope inside.
func isShownForm(raw []byte) bool {
	var form struct{ Postures, Envelope json.RawMessage }
	return json.Unmarshal(raw, &form) == nil && (form.Postures != nil || form.Envelope != nil)
}

// add takes a bare public key for everything, a verifier line for journals, or the keys of a trust
// file for their uses.
func (t *trust) add(text string) error {
	if raw, err := os.ReadFile(text); err == nil {
		text = strings.TrimSpace(string(raw))
	}
	var file struct {
		Keys []struct {
			Use       string `json:"use"`
			PublicKey string `json:"public_key"`
			Verifier  string `json:"verifier"`
		} `json:"keys"`
	}
	if json.Unmarshal([]byte(text), &file) == nil {
		for _, k := range file.Keys {
			if k.Use == "journal" {
				if err := t.addVerifier(k.Verifier); err != nil {
					return err
				}
			} else if pub, err := publicKey(k.PublicKey); err != nil {
				return err
			} else if k.Use == "attestation" {
				t.daemon = append(t.daemon, pub)
			}
		}
		return nil
	}
	if pub, err := publicKey(text); err == nil {
		t.daemon, t.journal = append(t.daemon, pub), append(t.journal, named{pub: pub})
		return nil
	}
	return t.addVerifier(text)
}

func (t *trust) addVerifier(line string) error {
	parts := strings.SplitN(line, "+", 3)
	if len(parts) == 3 && parts[0] != "" {
		if raw, err := base64.StdEncoding.DecodeString(parts[2]); err == nil && len(raw) == 1+ed25519.PublicKeySize && raw[0] == 1 {
			t.journal = append(t.journal, named{name: parts[0], pub: raw[1:]})
			return nil
		}
	}
	return fmt.Errorf("%.60q is neither a key nor a file with keys", line)
}

func publicKey(text string) (ed25519.PublicKey, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) != ed25519.PublicKeySize {
		return nil, fmt.Errorf("%.60q is not a base64 Ed25519 public key", text)
	}
	return b, nil
}

// lines are the facts that a report shows.
const lines = `kind attestation_id state_id call_id tool principal plan_digest verdict reused plan_shown approver_separation
	operators_pinned tier executor outcome exit_code started_at finished_at origin seq event at from to size root time
	digest tiers held changes_list observed`

// report prints the facts, or the fault.
func report(w io.Writer, asJSON bool, facts object, err error) {
	found, text := object{"ok": err == nil}, bytes.NewBufferString("OK\n")
	for _, name := range strings.Fields(lines) {
		if v := facts[name]; v != nil {
			found[name] = v
			_, _ = fmt.Fprintf(text, "%-20s %q\n", name, fmt.Sprint(v))
		}
	}
	if err != nil {
		found["error"] = err.Error()
		text = bytes.NewBufferString("BAD: " + err.Error() + "\n")
	}
	if asJSON {
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	text.WriteString(notes(facts))
	_, _ = text.WriteTo(w)
}

// notes returns the limits of evidence that holds: what it does not prove.
func notes(facts object) (text string) {
	decided := facts["decision"] != nil
	for _, n := range []struct {
		applies bool
		text    string
	}{
		{decided && facts["operators_pinned"] == false, "no --operator-key given; whose keys the approvers' are is the daemon's word"},
		{facts["kind"] == "posture", "whether the host is still as it was then, only the daemon there can say"},
		{facts["kind"] == "posture" && facts["held"] == false, "it is genuine, and says that NOT everything held: see its tiers"},
		{facts["observed"] != nil, "the calls counted as observed were judged and NOT held: nothing here says that they were gated"},
		{
			facts["kind"] == "journal export" && facts["from"] != int64(1),
			"which keys only deny is held for browsers that were paired in these entries; an export from entry 1 has all",
		},
		{facts["event"] == "call.observed", "the call was judged and NOT held: this is no evidence that it was gated"},
		{facts["reused"] == true, "an earlier answer covered this run; nobody was asked again"},
		{
			facts["reused"] == true && facts["plan_shown"] != facts["plan_digest"],
			"the approvers saw another plan, plan_shown, and allowed others under the same directory",
		},
	} {
		if n.applies {
			text += "note: " + n.text + "\n"
		}
	}
	return text
}
