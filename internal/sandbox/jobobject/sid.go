package jobobject

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
)

// SIDs that every Windows has.
const (
	everyone      = "S-1-1-0"
	users         = "S-1-5-32-545"
	restricted    = "S-1-5-12" // what the system itself gives to restricted tokens
	localSystem   = "S-1-5-18"
	lowIntegrity  = "S-1-16-4096"
	localAdmin    = "S-1-5-114" // a local account that is an administrator
	builtinPrefix = "S-1-5-32-"
)

// powerful are groups whose SIDs a run's token has for denying only.
var powerful = []string{
	localAdmin, builtinPrefix + "544", builtinPrefix + "547", builtinPrefix + "548", builtinPrefix + "549", builtinPrefix + "550",
	builtinPrefix + "551",
	builtinPrefix + "552", builtinPrefix + "556", builtinPrefix + "559", builtinPrefix + "562", builtinPrefix + "569", builtinPrefix + "578",
	builtinPrefix + "580",
}

// ownSID makes a SID that no account has: of the form of an account's, in a domain that is a digest.
func ownSID(kind, state, what string) string {
	sum := sha256.Sum256([]byte("palyra/jobobject\x00" + kind + "\x00" + state + "\x00" + what))
	var n [4]any
	for i := range n {
		n[i] = binary.LittleEndian.Uint32(sum[4*i:])
	}
	return fmt.Sprintf("S-1-5-21-%d-%d-%d-%d", n[:]...)
}

// workspaceSID is the same for every way to write a workspace's path.
func workspaceSID(state, workspace string) string {
	return ownSID("workspace", state, strings.ToLower(workspace))
}
