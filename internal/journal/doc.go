// Package journal is Palyra's record of what happened: append-only, typed,
// hash-chained, a Merkle tree under signed heads.
//
// # Words
//
// An entry is the canonical bytes (internal/canon) of
//
//	{body, call_id?, kind, seq, time}
//
// where body is the event's JSON form, seq counts from 1 without gaps and time is palyra.Time of the clock when the
// entry was appended. Kinds are those of palyra.Catalogue. A body over MaxBody stands as {digest, size, truncated}:
// the journal never fails for size.
//
//	leaf(i)  = SHA-256(0x00 ‖ entry)                       (RFC 6962)
//	node     = SHA-256(0x01 ‖ left ‖ right)                (RFC 6962)
//	chain(0) = SHA-256(0x02 ‖ origin)
//	chain(i) = SHA-256(0x02 ‖ chain(i-1) ‖ leaf(i))
//
// Entry seq is leaf seq-1 of the tree. Full tiles of 256 hashes are kept for proofs; the unfinished right edge
// lives in memory and is rebuilt at start. The head is a signed note (golang.org/x/mod/sumdb/note) in the form of
// C2SP tlog-checkpoint with two extension lines:
//
//	<origin>
//	<size>
//	<base64 root>
//	chain <base64 chain>
//	time <RFC 3339>
//
//	— <origin> <base64 of key hash and Ed25519 signature>
//
// The head row is rewritten and signed once per group commit; its text has one more line, "head", so that no
// checkpoint can stand in its place. Every 256 entries or minute a checkpoint is also kept.
//
// # Promises
//
// An entry is appended inside the transaction of the rows it speaks of; they become durable together or not at all.
// Watchers see an entry only after that, each once and in order. Verify, VerifyFile and VerifyProof need the public
// keys only, and notice every changed, missing, moved, repeated or added entry; they name the first. A journal
// whose tail does not match its signed head is not opened.
//
// # What it does not do
//
// Someone who holds the signing key can write another history. Someone who puts back an older copy of the whole
// state, or removes its newest log frames, leaves a journal that is complete and signed: only a witness that
// remembers a later checkpoint notices. Checkpoints are evidence in addition to the head; a removed one is not
// missed. The indices serve queries and are not signed.
//
// # Export
//
// An export is a sealed segment, one canonical JSON text per line (sorted keys,
// no white space, the escapes of encoding/json without those for HTML):
//
//	{"format":"palyra-journal-export/1","from":…,"left":[hash…],"origin":…,"prev":chain(from-1),"to":…}
//	{"chain":chain(seq),"entry":{…}}                      one line per entry
//	{"checkpoint":note,"proof":[hash…],"seal":note}
//
// Hashes are "sha256:<hex>". left are the roots of the complete subtrees before
// from, largest first; proof is the RFC 6962 consistency proof from the tree of
// size to to the checkpoint's. The seal is a note signed by the journal's key:
//
//	palyra.dev/journal-segment/1
//	<origin>
//	<from> <to>
//	sha256:<hex of all bytes before the last line>
//
// # Proof
//
// A proof (see Proof) holds an entry, the hashes from its leaf to a root and the signed checkpoint with that root.
//
// Its words are those of docs/words.md.
package journal
