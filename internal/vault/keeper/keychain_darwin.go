package keeper

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"palyra"
)

// systemKeepers are those that macOS has: the login keychain.
func systemKeepers(dir string) map[string]KeyKeeper {
	return map[string]KeyKeeper{Keychain: NewKeychain(dir)}
}

// keychain is the login keychain of the daemon's user, by the program that macOS has for it: cgo is not used here. What
// passes to that program goes by its input, never by its arguments, which others see.
type keychain struct {
	dir  string
	file string // another keychain than the login's, in tests
}

// NewKeychain keeps keys in the keychain, for the state whose keys' directory this is.
func NewKeychain(dir string) Unsealed { return Unsealed{keychain{dir: dir}} }

const (
	securityProgram = "/usr/bin/security"
	keychainService = "palyra-vault-key"
	keychainAnswer  = 10 * time.Second
)

// How the program ends where an item is not there, and where somebody would have to be asked.
const (
	exitNotFound     = 44
	exitNotPermitted = 36
	exitDenied       = 51
	exitCancelled    = 128
)

func (k keychain) name(id string) string { return "the item of key " + id + " in the keychain" }

// account is what a key is found by: its id, and which state of the user's it belongs to. It needs no quotes.
func (k keychain) account(id string) (string, error) {
	dir, err := fullPath(k.dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s-%x", id, sha256.Sum256([]byte(dir))), nil
}

// load implements place.
func (k keychain) load(ctx context.Context, id string) ([]byte, error) {
	account, err := k.account(id)
	if err != nil {
		return nil, err
	}
	out, err := k.run(ctx, nil, "find-generic-password", "-s", keychainService, "-a", account, "-w")
	if notFound(err) {
		return nil, locked("the keychain does not have the vault's key").
			WithRemedy("start the daemon as the user whose keychain has it; without one, begin anew from an export: palyra vault import")
	}
	if err == nil && len(out) > maxFile {
		err = palyra.Errorf(palyra.Conflict, palyra.ReasonVaultLocked, "%s is larger than a key", k.name(id)).
			WithRemedy("put it back from a backup")
	}
	return out, err
}

// save implements place.
func (k keychain) save(ctx context.Context, id string, text []byte) error {
	account, err := k.account(id)
	if err != nil {
		return err
	}
	line := fmt.Appendf(make([]byte, 0, 1024), "add-generic-password -U -s %s -a %s -l %s -w %s %s\n",
		keychainService, account, keychainService, strings.TrimSpace(string(text)), k.file)
	defer clear(line)
	_, err = k.run(ctx, line, "-i")
	return err
}

// forget implements place.
func (k keychain) forget(ctx context.Context, id string) error {
	account, err := k.account(id)
	if err != nil {
		return err
	}
	if _, err = k.run(ctx, nil, "delete-generic-password", "-s", keychainService, "-a", account); notFound(err) {
		return nil
	}
	return err
}

func notFound(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == exitNotFound
}

// run runs the keychain's program. What it prints on errors is not told: a key could be in it.
func (k keychain) run(ctx context.Context, in []byte, args ...string) ([]byte, error) {
	within, cancel := context.WithTimeout(ctx, keychainAnswer)
	defer cancel()
	if k.file != "" && in == nil {
		args = append(args, k.file)
	}
	cmd := exec.CommandContext(within, securityProgram, args...)
	cmd.Stdin, cmd.WaitDelay = bytes.NewReader(in), time.Second
	out, err := cmd.Output()
	var exit *exec.ExitError
	switch {
	case err == nil || notFound(err):
		return out, err
	case ctx.Err() != nil:
		return nil, fmt.Errorf("keeper: keychain: %w", ctx.Err())
	case within.Err() != nil:
		return nil, locked("the keychain does not answer").WithRemedy("see whether it asks something on the screen, then try again")
	case errors.As(err, &exit) && (exit.ExitCode() == exitNotPermitted || exit.ExitCode() == exitDenied || exit.ExitCode() == exitCancelled):
		return nil, locked("the keychain is locked").WithRemedy("unlock it: security unlock-keychain; then try again")
	}
	return nil, locked("the keychain refused").WithRemedy("see how it is: security show-keychain-info").WithCause(err)
}
