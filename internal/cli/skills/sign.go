package skills

import (
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"palyra"
	"palyra/internal/cli/exit"
	"palyra/internal/cli/invocation"
	"palyra/internal/cli/syntax"
	"palyra/internal/config"
	"palyra/internal/durable"
	"palyra/internal/show"
	"palyra/internal/skill/archive"
)

// keyName is the file of a person's own publisher key, beside their operator's key.
const keyName = "publisher.key"

const maxKey = 16 << 10

// ownKey is where the person's publisher key lies.
func ownKey(inv *invocation.Invocation) (string, error) {
	paths, err := inv.Paths()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(paths.OperatorKey), keyName), nil
}

// loadKey reads a key file that nobody else can read.
func loadKey(path string) (ed25519.PrivateKey, error) {
	raw, err := config.ReadPrivate(path, maxKey)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, palyra.Errorf(palyra.NotFound, palyra.ReasonNotFound, "there is no key at %s", path).WithCause(err)
	case config.Unsafe(err):
		return nil, exit.Failedf(palyra.ReasonUnsafePermissions, "%s can be read by others, or is not yours", path).
			WithRemedy("make it yours alone (chmod 600); where others may have read it, take a new key")
	case err != nil:
		return nil, exit.Failedf(palyra.ReasonFileNotFound, "the key %s cannot be read", path).WithRemedy("name a key file with --key")
	}
	defer clear(raw)
	return archive.ParseKey(raw)
}

// publisherKey is the key that signs: the one that is named, or the person's own, which is made when there is none.
func publisherKey(inv *invocation.Invocation, path string) (ed25519.PrivateKey, error) {
	if path != "" {
		return loadKey(path)
	}
	path, err := ownKey(inv)
	if err != nil {
		return nil, err
	}
	key, err := loadKey(path)
	if err == nil || palyra.CodeOf(err) != palyra.NotFound {
		return key, err
	}
	key, text, err := archive.NewKey()
	if err != nil {
		return nil, err
	}
	defer clear(text)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("skills: sign: %w", err)
	}
	err = durable.Write(path, 0o600, false, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return nil, exit.Failedf(palyra.ReasonInternal, "a key cannot be kept at %s", path).WithRemedy("name one of your own with --key FILE")
	}
	inv.Say("palyra: made your publisher key, %s; keep a copy of it", show.Arg(path))
	return key, nil
}

func signCommand(inv *invocation.Invocation) *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use: "sign FILE", Short: "Sign a package with your publisher key", Args: syntax.Takes("FILE"),
		Long: "Signs a package in place: DSSE and Ed25519 over the digest of every file in it. Without\n" +
			"--key it is your own publisher key, beside your operator's key, which is made at first\n" +
			"use. Whoever is to install it needs the public half, which is printed.",
		Example: "  palyra skills sign demo-0.1.0.skill\n  palyra skills sign demo-0.1.0.skill --key release.pem",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, _, err := readPackage(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			key, err := publisherKey(inv, path)
			if err != nil {
				return err
			}
			defer clear(key)
			raw, err := archive.Sign(p, key)
			if err != nil {
				return err
			}
			if err := durable.WriteFile(args[0], raw, 0o644); err != nil {
				return exit.Failedf(palyra.ReasonInternal, "cannot write %s: %v", args[0], err).WithRemedy("copy it to where you can write")
			}
			pub := key.Public().(ed25519.PublicKey)
			out := map[string]string{
				"file": args[0], "id": p.Manifest.ID, "version": p.Manifest.Version, "publisher": p.Manifest.Publisher,
				"digest": string(palyra.SumBytes(raw)), "key_id": archive.KeyID(pub), "public_key": archive.PublicText(pub),
			}
			return inv.Emit(out, func(w io.Writer) {
				fmt.Fprintf(w, "%s: signed by %s\n", show.Line(args[0]), archive.KeyID(pub))
				inv.Say("palyra: whoever installs it trusts this key first: palyra skills trust add %s %s", show.Arg(p.Manifest.Publisher),
					archive.PublicText(pub))
			})
		},
	}
	cmd.Flags().StringVar(&path, "key", "", "key file: Ed25519 in PEM (default: your own, made at first use)")
	_ = cmd.MarkFlagFilename("key")
	return cmd
}

func verifyCommand(inv *invocation.Invocation) *cobra.Command {
	var with string
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Check a package: its form, and that a key signed all of it", Args: syntax.Takes("FILE"),
		Long: "Needs no daemon. --key is the publisher's public key, in base64 or as a PEM file; without\n" +
			"it your own publisher key is taken. Says what the skill asks for.",
		Example: "  palyra skills verify demo-0.1.0.skill --key publisher.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			p, raw, err := readPackage(cmd.Context(), args[0])
			if err != nil {
				return exit.Unproven(err)
			}
			pub, err := publicKey(inv, with, "--key")
			if err != nil {
				return err
			}
			if err := p.Verify(pub); err != nil {
				return exit.Unproven(err)
			}
			return printPacked(inv, args[0], raw, nil, func() { inv.Say("palyra: signed by %s, with every file in it", archive.KeyID(pub)) })
		},
	}
	cmd.Flags().StringVar(&with, "key", "", "public key: base64, or a PEM file (default: your own)")
	_ = cmd.MarkFlagFilename("key")
	return cmd
}

// publicKey is the key that a package is checked with, as it was named by what.
func publicKey(inv *invocation.Invocation, with, what string) (ed25519.PublicKey, error) {
	if with == "" {
		path, err := ownKey(inv)
		if err != nil {
			return nil, err
		}
		key, err := loadKey(path)
		if palyra.CodeOf(err) == palyra.NotFound {
			return nil, exit.Failedf(palyra.ReasonNotFound, "you have no publisher key of your own yet").
				WithRemedy("sign a package, which makes it: palyra skills sign FILE; or name another one with %s", what)
		}
		if err != nil {
			return nil, err
		}
		defer clear(key)
		return append(ed25519.PublicKey{}, key.Public().(ed25519.PublicKey)...), nil
	}
	if pub, err := archive.ParsePublic(with); err == nil {
		return pub, nil
	}
	f, err := os.Open(with)
	if err != nil {
		return nil, exit.Usagef("%s is neither a public key in base64 nor a file that can be read", what)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKey))
	if err != nil {
		return nil, exit.Usagef("%s is neither a public key in base64 nor a file that can be read", what)
	}
	return archive.ParsePublic(string(raw))
}
