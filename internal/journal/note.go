package journal

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"palyra"
)

// Signer signs the journal's heads with an Ed25519 key.
//
// A key's verifier line is <name>+<hash>+<key>: key is the standard base64 of the byte 1 and the 32 bytes of the
// public key; hash is the first four bytes, as eight hex digits, of SHA-256(name ‖ "\n" ‖ 1 ‖ public key). It is
// what note.NewEd25519VerifierKey returns.
type Signer interface {
	// Name is the key's name, which is the journal's origin. It stays the same when the key is replaced.
	Name() string
	// Verifier is the verifier line of the key that Sign uses.
	Verifier() string
	// Sign returns the 64 bytes of the Ed25519 signature over msg.
	Sign(msg []byte) ([]byte, error)
}

// noteSigner is a Signer as the note package wants it.
type noteSigner struct {
	Signer
	hash uint32
}

// KeyHash implements note.Signer.
func (s noteSigner) KeyHash() uint32 { return s.hash }

// Checkpoint is a head of the journal: a tree, named by its size and root, and
// the chain at its end, under a signature.
type Checkpoint struct {
	Origin string        `json:"origin"`
	Size   int64         `json:"size"`
	Root   palyra.Digest `json:"root"`
	Chain  palyra.Digest `json:"chain"`
	Time   string        `json:"time"`
	Note   string        `json:"note"` // the signed text, which says all of the above
	Key    string        `json:"key"`  // <name>+<hash> of the key that signed it
}

// head is a checkpoint with its hashes at hand.
type head struct {
	origin      string
	size        int64
	root, chain tlog.Hash
	time        string
	kept        keptCheckpoints
	tip         string // signed, as it stands in the head row and nowhere else
	note        string // signed, as a checkpoint
	key         string
}

// tipMark ends the text of a head row. A checkpoint, which is kept and handed out, lacks it: nobody can cut the
// journal back to where a checkpoint was made and pass that off as its head.
const tipMark = "head\n"

func (h head) tipText() string { return h.text() + h.kept.text() + tipMark }

// keptCheckpoints says which checkpoints are kept: how many, and a hash over all of them. It stands in the signed
// head, so that none can be taken away, changed or added. Heads from before it was written have none.
type keptCheckpoints struct {
	known bool
	count int64
	sum   tlog.Hash
}

const keptMark = "kept "

func (k keptCheckpoints) text() string {
	if !k.known {
		return ""
	}
	return fmt.Sprintf("%s%d %s\n", keptMark, k.count, k.sum)
}

// withNote adds a checkpoint's signed text.
func (k keptCheckpoints) withNote(note string) keptCheckpoints {
	h := sha256.New()
	h.Write(k.sum[:])
	h.Write([]byte(note))
	return keptCheckpoints{known: true, count: k.count + 1, sum: tlog.Hash(h.Sum(nil))}
}

// cutKept takes the line about checkpoints off the end of a head's text.
func cutKept(text string) (string, keptCheckpoints, error) {
	i := strings.LastIndex(strings.TrimSuffix(text, "\n"), "\n") + 1
	line := text[i:]
	if !strings.HasPrefix(line, keptMark) {
		return text, keptCheckpoints{}, nil
	}
	count, sum, _ := strings.Cut(strings.TrimSuffix(line[len(keptMark):], "\n"), " ")
	k := keptCheckpoints{known: true}
	var err error
	if k.count, err = strconv.ParseInt(count, 10, 64); err == nil {
		k.sum, err = tlog.ParseHash(sum)
	}
	if err != nil || k.text() != line {
		return "", keptCheckpoints{}, errors.New("what it says of checkpoints cannot be read")
	}
	return text[:i], k, nil
}

func (h head) checkpoint() Checkpoint {
	return Checkpoint{Origin: h.origin, Size: h.size, Root: digest(h.root), Chain: digest(h.chain), Time: h.time, Note: h.note, Key: h.key}
}

func (h head) text() string {
	return fmt.Sprintf("%s\n%d\n%s\nchain %s\ntime %s\n", h.origin, h.size, h.root, h.chain, h.time)
}

// parseHead reads a checkpoint's text; only what text writes is accepted.
func parseHead(text string) (head, error) {
	bad := func() (head, error) { return head{}, errors.New("not a checkpoint of a journal") }
	lines := strings.Split(text, "\n")
	if len(lines) != 6 {
		return bad()
	}
	h := head{origin: lines[0]}
	var ok bool
	var chain string
	if chain, ok = strings.CutPrefix(lines[3], "chain "); !ok {
		return bad()
	}
	if h.time, ok = strings.CutPrefix(lines[4], "time "); !ok {
		return bad()
	}
	var errs [4]error
	h.size, errs[0] = strconv.ParseInt(lines[1], 10, 64)
	h.root, errs[1] = tlog.ParseHash(lines[2])
	h.chain, errs[2] = tlog.ParseHash(chain)
	_, errs[3] = time.Parse(time.RFC3339Nano, h.time)
	for _, err := range errs {
		if err != nil {
			return bad()
		}
	}
	if h.size < 0 || h.text() != text {
		return bad()
	}
	return h, nil
}

// signText makes a note of one signature.
func signText(s noteSigner, text string) (string, error) {
	msg, err := note.Sign(&note.Note{Text: text}, s)
	if err != nil {
		return "", fmt.Errorf("journal: sign: %w", err)
	}
	return string(msg), nil
}

// keys are the public keys trusted to sign.
type keys struct {
	known note.Verifiers
	list  []note.Verifier
}

func parseKeys(lines []string) (keys, error) {
	var k keys
	seen := map[string]bool{}
	for _, line := range lines {
		if line = strings.TrimSpace(line); line == "" || seen[line] {
			continue
		}
		v, err := note.NewVerifier(line)
		if err != nil {
			return keys{}, palyra.Errorf(palyra.Invalid, palyra.ReasonUnknownKey, "journal: not a verifier key: %s", palyra.Clip(line, 100)).
				WithRemedy("give a line of the form name+hash+base64, as 'palyra keys list' shows it").WithCause(err)
		}
		seen[line] = true
		k.list = append(k.list, v)
	}
	if len(k.list) == 0 {
		return keys{}, palyra.Errorf(palyra.Invalid, palyra.ReasonUnknownKey, "journal: no key to verify with").
			WithRemedy("give the verifier line of the journal's key")
	}
	k.known = note.VerifierList(k.list...)
	return k, nil
}

func (k keys) withKey(v note.Verifier) keys {
	for _, have := range k.list {
		if have.Name() == v.Name() && have.KeyHash() == v.KeyHash() {
			return k
		}
	}
	list := append(append([]note.Verifier{}, k.list...), v)
	return keys{list: list, known: note.VerifierList(list...)}
}

// open checks a note of ours: exactly one signature, by a known key, in the one spelling that signing gives. Base64
// leaves bits unused and decoders skip line ends, so a signature that verifies may still be spelt in another way.
func (k keys) open(msg string) (text, key string, err error) {
	n, err := note.Open([]byte(msg), k.known)
	if err != nil {
		if bad := (*note.UnverifiedNoteError)(nil); errors.As(err, &bad) {
			return "", "", errors.New("not signed by a known key")
		}
		return "", "", err
	}
	sig := n.Sigs[0]
	raw, err := base64.StdEncoding.DecodeString(sig.Base64)
	if err != nil {
		return "", "", err
	}
	if msg != n.Text+"\n— "+sig.Name+" "+base64.StdEncoding.EncodeToString(raw)+"\n" {
		return "", "", errors.New("the signature is not spelt as it was made")
	}
	return n.Text, fmt.Sprintf("%s+%08x", sig.Name, sig.Hash), nil
}

// openTip checks and reads the signed text of a head row.
func (k keys) openTip(msg string) (head, error) {
	h, err := k.openAs(msg, tipMark)
	h.tip, h.note = h.note, ""
	return h, err
}

// openHead checks and reads a signed checkpoint.
func (k keys) openHead(msg string) (head, error) { return k.openAs(msg, "") }

// openAs reads a head whose text ends in a mark. The key's name must be the
// journal's own: a key with another name speaks for another journal.
func (k keys) openAs(msg, mark string) (head, error) {
	text, key, err := k.open(msg)
	if err != nil {
		return head{}, err
	}
	text, ok := strings.CutSuffix(text, mark)
	if !ok {
		return head{}, errors.New("it is a checkpoint, not the journal's head")
	}
	var marks keptCheckpoints
	if mark != "" {
		if text, marks, err = cutKept(text); err != nil {
			return head{}, err
		}
	}
	h, err := parseHead(text)
	if err != nil {
		return head{}, err
	}
	h.kept = marks
	if name, _, _ := strings.Cut(key, "+"); name != h.origin {
		return head{}, fmt.Errorf("signed by the key of another journal, %s", key)
	}
	h.note, h.key = msg, key
	return h, nil
}

// OpenCheckpoint checks a signed checkpoint with the given verifier lines and returns what it says.
func OpenCheckpoint(msg string, verifiers []string) (Checkpoint, error) {
	k, err := parseKeys(verifiers)
	if err != nil {
		return Checkpoint{}, err
	}
	h, err := k.openHead(msg)
	if err != nil {
		return Checkpoint{}, palyra.Errorf(palyra.Invalid, palyra.ReasonVerifyFailed, "journal: checkpoint: %v", err)
	}
	return h.checkpoint(), nil
}

// checkSigner makes sure that a signer does what it says before anything rests
// on it: a head signed by a key nobody knows would lock the journal up.
func checkSigner(s Signer) (noteSigner, note.Verifier, error) {
	bad := func(why string, err error) (noteSigner, note.Verifier, error) {
		return noteSigner{}, nil, palyra.Errorf(palyra.Unavailable, palyra.ReasonBadSignature, "journal: the signing key does not work: %s", why).
			WithCause(err)
	}
	if s == nil {
		return bad("there is none", nil)
	}
	v, err := note.NewVerifier(s.Verifier())
	if err != nil {
		return bad("its verifier line is malformed", err)
	}
	if v.Name() != s.Name() {
		return bad("its verifier line has another name", nil)
	}
	ns := noteSigner{Signer: s, hash: v.KeyHash()}
	msg, err := signText(ns, "palyra.dev/journal-self-test/1\n")
	if err != nil {
		return bad("it cannot sign", err)
	}
	if _, _, err := (keys{known: note.VerifierList(v)}).open(msg); err != nil {
		return bad("its signature does not verify", err)
	}
	return ns, v, nil
}
