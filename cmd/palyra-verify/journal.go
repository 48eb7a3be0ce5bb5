package main

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The journal: entries hashed into a chain and an RFC 6962 tree, whose head is a signed note. Checked here are a sealed
// export, line by line, and the proof that one entry stands in the tree.

const (
	exportStart = `{"format":"palyra-journal-export/1"`
	proofFormat = "palyra-journal-proof/1"
	sealFormat  = "palyra.dev/journal-segment/1"
	maxLine     = 1 << 20
)

type hash = [sha256.Size]byte

// named is a journal's key with the journal's name; "" fits any.
type named struct {
	name string
	pub  ed25519.PublicKey
}

// head is the content of a signed checkpoint.
type head struct {
	origin, time string
	size         int64
	root, chain  hash
}

// refused turns a panic into an error, so that unreadable evidence is refused.
func refused(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("%v", r)
	}
}

// verifyExport checks a sealed segment.
func verifyExport(in io.Reader, keys []named) (facts object, err error) {
	defer refused(&err)
	lines, sum := bufio.NewReaderSize(in, maxLine), sha256.New()
	first := line(lines)
	h := exact(first, "format", "from", "left", "origin", "prev", "to")
	origin, from, to := str(h, "origin"), integer(h, "from"), integer(h, "to")
	must(h["format"] == "palyra-journal-export/1" && from >= 1 && to >= from, "the first line is malformed")
	watched, deniers := watch{ends: map[string]string{}}, newDenier()
	chain, seen := digestOf(h["prev"]), tree{size: from - 1, roots: digestsOf(h["left"])}
	must(from > 1 || chain == chained([]byte(origin)), "the chain does not start with the journal's name")
	must(len(seen.roots) == bits.OnesCount64(uint64(from-1)), "the tree before the first entry is incomplete")
	_, _ = fmt.Fprintf(sum, "%s\n", first)
	for seq := from; seq <= to; seq++ {
		text := line(lines)
		l := exact(text, "chain", "entry")
		entry := l["entry"].(object)
		leaf := leafOf(entry, seq)
		watched.hear(entry)
		deniers.hear(entry)
		chain = chained(chain[:], leaf[:])
		must(digestOf(l["chain"]) == chain, fmt.Sprintf("entry %d does not follow from the one before", seq))
		seen.push(leaf)
		_, _ = fmt.Fprintf(sum, "%s\n", text)
	}
	t := exact(line(lines), "checkpoint", "proof", "seal")
	_, end := lines.ReadByte()
	must(end == io.EOF, "there is more after the last line")

	c := openHead(str(t, "checkpoint"), keys)
	must(c.origin == origin && to <= c.size, "the checkpoint is of another journal or ends too early")
	sealed := fmt.Sprintf("%s\n%s\n%d %d\nsha256:%x\n", sealFormat, origin, from, to, sum.Sum(nil))
	must(openNote(str(t, "seal"), origin, keys) == sealed, "these are not the lines that were sealed")
	must(to < c.size || chain == c.chain, "the chain does not end where the checkpoint says")
	must(consistent(to, c.size, seen.root(), c.root, digestsOf(t["proof"])), "these are not the entries that the checkpoint covers")
	return object{
		"kind": "journal export", "origin": origin, "from": from, "to": to, "size": c.size,
		"root": fmt.Sprintf("sha256:%x", c.root), "time": c.time, "observed": watched.observed(),
	}, nil
}

// verifyProof checks that an entry stands in the journal.
func verifyProof(raw []byte, keys []named) (facts object, err error) {
	defer refused(&err)
	must(utf8.Valid(raw), "this is not UTF-8")
	dec := json.NewDecoder(bytes.NewReader(raw))
	unrepeated(dec)
	_, end := dec.Token()
	p := object{}
	must(end == io.EOF && reread(raw, &p) != nil && p["format"] == proofFormat && len(p) == 7, "this is not a proof of a journal entry")
	entry := p["entry"].(object)
	c, index := openHead(str(p, "checkpoint"), keys), integer(p, "index")
	leaf := leafOf(entry, index+1)
	must(digestOf(p["leaf"]) == leaf && integer(p, "size") == c.size, "leaf or size is not the entry's and the checkpoint's")
	must(included(index, c.size, leaf, c.root, digestsOf(p["hashes"])), "the hashes do not lead from the entry to the checkpoint's root")
	return object{
		"kind": "journal proof", "origin": c.origin, "seq": index + 1, "event": entry["kind"], "at": entry["time"], "size": c.size,
		"root": fmt.Sprintf("sha256:%x", c.root), "time": c.time,
	}, nil
}

// line returns the next whole line without its end.
func line(in *bufio.Reader) []byte {
	b, err := in.ReadSlice('\n')
	must(err == nil, "the file is cut short, or a line is too long")
	return bytes.Clone(b[:len(b)-1])
}

// exact reads a line, which must be the canonical text of its value and have exactly those members.
func exact(text []byte, names ...string) object {
	o := object{}
	must(bytes.Equal(reread(text, &o), text), "a line is not spelt as it was written")
	for _, name := range names {
		_, present := o[name]
		must(present && len(o) == len(names), "a line has other members than it should")
	}
	return o
}

// unrepeated refuses a repeated member in one value: decoding would silently keep the last.
func unrepeated(dec *json.Decoder) {
	t, err := dec.Token()
	must(err == nil, "this is not one JSON value")
	seen := map[json.Token]bool{}
	for (t == json.Delim('{') || t == json.Delim('[')) && dec.More() {
		if t == json.Delim('{') {
			name, _ := dec.Token()
			must(!seen[name], "a member is repeated")
			seen[name] = true
		}
		unrepeated(dec)
	}
	if t == json.Delim('{') || t == json.Delim('[') {
		_, err = dec.Token()
		must(err == nil, "this is not one JSON value")
	}
}

func leafOf(entry object, seq int64) hash {
	_, called := entry["call_id"]
	must(integer(entry, "seq") == seq, fmt.Sprintf("another entry stands in the place of %d", seq))
	must(len(entry) == map[bool]int{false: 4, true: 5}[called] && entry["body"] != nil && entry["kind"] != nil && entry["time"] != nil,
		"an entry has other members than it should")
	return sha256.Sum256(canon([]byte{0}, entry))
}

func chained(parts ...[]byte) hash {
	return sha256.Sum256(slices.Concat(append([][]byte{{2}}, parts...)...))
}

func node(left, right hash) hash { return sha256.Sum256(slices.Concat([]byte{1}, left[:], right[:])) }

// tree holds the roots of the complete subtrees of its leaves, largest first.
type tree struct {
	size  int64
	roots []hash
}

func (t *tree) push(leaf hash) {
	t.roots = append(t.roots, leaf)
	for n := t.size; n&1 == 1; n >>= 1 {
		last := len(t.roots) - 1
		t.roots = append(t.roots[:last-1], node(t.roots[last-1], t.roots[last]))
	}
	t.size++
}

func (t *tree) root() hash {
	root := t.roots[len(t.roots)-1]
	for _, left := range slices.Backward(t.roots[:len(t.roots)-1]) {
		root = node(left, root)
	}
	return root
}

// included is RFC 9162, 2.1.3.2: the path leads from the leaf to the root.
func included(index, size int64, leaf, root hash, path []hash) bool {
	if index < 0 || index >= size {
		return false
	}
	at, last := index, size-1
	for _, p := range path {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			leaf = node(p, leaf)
			for ; at&1 == 0 && at != 0; at, last = at>>1, last>>1 {
			}
		} else {
			leaf = node(leaf, p)
		}
		at, last = at>>1, last>>1
	}
	return last == 0 && leaf == root
}

// consistent is RFC 9162, 2.1.4.2: the tree of size n begins the tree of size m.
func consistent(n, m int64, rootN, rootM hash, proof []hash) bool {
	if n == m {
		return rootN == rootM && len(proof) == 0
	}
	if n&(n-1) == 0 {
		proof = append([]hash{rootN}, proof...)
	}
	if n < 1 || n > m || len(proof) == 0 {
		return false
	}
	at, last := n-1, m-1
	for ; at&1 == 1; at, last = at>>1, last>>1 {
	}
	a, b := proof[0], proof[0]
	for _, p := range proof[1:] {
		if last == 0 {
			return false
		}
		if at&1 == 1 || at == last {
			a, b = node(p, a), node(p, b)
			for ; at&1 == 0 && at != 0; at, last = at>>1, last>>1 {
			}
		} else {
			b = node(b, p)
		}
		at, last = at>>1, last>>1
	}
	return last == 0 && a == rootN && b == rootM
}

// openNote checks a signed note: one signature, by a key of that name, in the one spelling. It returns the text.
func openNote(msg, name string, keys []named) string {
	i := strings.LastIndex(msg, "\n\n— ")
	must(i >= 0 && strings.HasSuffix(msg, "\n"), "a note is not signed")
	text, signature := msg[:i+1], msg[i+len("\n\n— "):len(msg)-1]
	raw, ok := strings.CutPrefix(signature, name+" ")
	must(ok && !strings.ContainsAny(raw, " \n"), "a note is signed by the key of another journal, or more than once")
	sig := unbase64(raw)
	must(len(sig) == 4+ed25519.SignatureSize, "a note's signature is malformed")
	for _, k := range keys {
		id := sha256.Sum256(slices.Concat([]byte(name+"\n\x01"), k.pub))
		if (k.name == name || k.name == "") && binary.BigEndian.Uint32(sig) == binary.BigEndian.Uint32(id[:]) &&
			ed25519.Verify(k.pub, []byte(text), sig[4:]) {
			return text
		}
	}
	must(false, "a note is not signed by a trusted key of the journal")
	return ""
}

// openHead checks and reads a signed checkpoint.
func openHead(msg string, keys []named) head {
	lines := strings.Split(msg, "\n")
	must(len(lines) > 5, "this is not a checkpoint")
	text := openNote(msg, lines[0], keys)
	size, err := strconv.ParseInt(lines[1], 10, 64)
	h := head{
		origin: lines[0], size: size, root: hash(unbase64(lines[2])), chain: hash(unbase64(strings.TrimPrefix(lines[3], "chain "))),
		time: strings.TrimPrefix(lines[4], "time "),
	}
	must(err == nil && text == fmt.Sprintf("%s\n%d\n%s\n%s\ntime %s\n", h.origin, size, lines[2], lines[3], h.time) &&
		strings.HasPrefix(lines[3], "chain "), "this is not a checkpoint")
	return h
}

func integer(o object, name string) int64 {
	n, err := strconv.ParseInt(str(o, name), 10, 64)
	must(err == nil && o[name] == json.Number(strconv.FormatInt(n, 10)), name+" is not an integer")
	return n
}

func digestOf(v any) hash {
	s, _ := v.(string)
	must(isDigest(s), "a hash is malformed")
	b, _ := hex.DecodeString(s[7:])
	return hash(b)
}

func digestsOf(v any) (list []hash) {
	for _, item := range v.([]any) {
		list = append(list, digestOf(item))
	}
	return list
}
