package profile

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"palyra"
	"palyra/internal/cell"
	"palyra/internal/subpath"
)

// secrets of a home: neither they nor a directory that contains them is ever mounted.
var secrets = strings.Fields(`
	.ssh .gnupg .aws .azure .oci .kube .docker .podman .netrc .authinfo .authinfo.gpg .pgpass .my.cnf .vault-token .password-store .age .step .terraform.d .terraformrc
	.git-credentials .npmrc .yarnrc.yml .pypirc .s3cfg .boto .databrickscfg .cargo/credentials .cargo/credentials.toml .gem/credentials .m2/settings.xml .m2/settings-security.xml
	.gradle/gradle.properties .composer/auth.json .nuget/NuGet .bundle/config .config/gh .config/hub .config/glab-cli .config/git/credentials .config/gcloud .config/doctl
	.config/rclone .config/op .op .config/age .config/sops .config/containers/auth.json .config/composer/auth.json .config/pip/pip.conf .config/configstore .config/Bitwarden
	.config/1Password .config/keybase .config/palyra .local/state/palyra .cache/palyra .local/share/palyra .palyra
	.local/share/keyrings .local/share/kwalletd .kde .pki .mozilla .thunderbird .config/google-chrome .config/chromium .config/BraveSoftware .config/vivaldi .config/opera
	.config/microsoft-edge .config/Slack .config/discord .config/Signal .var snap Library/Keychains Library/Cookies
	.bash_history .zsh_history .python_history .node_repl_history .psql_history .mysql_history .local/share/fish .lesshst .viminfo
	.claude .claude.json .codex .gemini .cursor .config/github-copilot .config/opencode .local/share/opencode .electrum .bitcoin .ethereum .config/solana .gitconfig .Xauthority .ICEauthority
`)

// closed are directories of the machine that no room sees: neither they nor their content, nor anything that
// contains them.
var closed = []string{
	"/proc", "/sys", "/dev", "/run", "/var/run", "/boot", "/etc/shadow", "/etc/gshadow", "/etc/ssh", "/etc/ssl/private", "/etc/sudoers",
	"/etc/sudoers.d", "/etc/krb5.keytab",
	"/etc/NetworkManager", "/etc/wireguard", "/etc/letsencrypt", "/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet",
	"/var/lib/private", "/var/log", "/var/spool", "/var/mail",
	"/etc/palyra", "/var/lib/palyra",
}

// taken are places in a room that have their own content.
var taken = []string{"/proc", "/sys", "/dev", "/run", "/etc", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"}

// mayMount refuses to show paths that no run may see. It checks the path as it is written and with all links
// followed.
func (b *builder) mayMount(d *definition, source, real, target string) error {
	fail := func(p, why string) error {
		return palyra.Errorf(palyra.Denied, palyra.ReasonBadProfile, "the profile %s may not mount %s: %s", d.name, p, why).
			WithRemedy("correct %s: mount the directory that the toolchain is in, and nothing above it", d.source)
	}
	homes, err := b.homes()
	if err != nil {
		return err
	}
	for _, p := range []string{source, real} {
		switch {
		case !isCleanAbs(p):
			return fail(p, "that is everything")
		case overlap(p, b.ws.Path):
			return fail(p, "it overlaps with the workspace")
		}
		for _, own := range []string{b.config.Dir, b.config.Caches} {
			if own != "" && overlap(p, own) {
				return fail(p, "it has Palyra's own files")
			}
		}
		for _, c := range closed {
			if overlap(p, c) {
				return fail(p, "it has parts of the system that no sandbox sees: "+c)
			}
		}
		for _, home := range append(homes, homeAbove(p)...) {
			if why := secretIn(p, home); why != "" {
				return fail(p, why)
			}
		}
	}
	if !isCleanAbs(target) || overlap(target, b.ws.Path) || target == "/tmp" || subpath.Within(target, cell.RoomHome) ||
		slices.ContainsFunc(taken, func(t string) bool { return overlap(target, t) }) {
		return fail(target, "something else lies there in the sandbox")
	}
	return nil
}

// homes are the owner's home as it is written and as it is, and root's.
func (b *builder) homes() ([]string, error) {
	home, err := b.home()
	if err != nil {
		return nil, err
	}
	out := []string{home, "/root"}
	if real, err := filepath.EvalSymlinks(home); err == nil && real != home {
		out = append(out, real)
	}
	return out, nil
}

// homeAbove is the home of the user that p would belong to by its path.
func homeAbove(p string) []string {
	for _, homes := range []string{"/home", "/Users", "/var/home", "/export/home"} {
		if rest, ok := subpath.Rel(homes, p); ok && rest != "." {
			user, _, _ := strings.Cut(rest, "/")
			return []string{homes + "/" + user}
		}
		if subpath.Within(p, homes) {
			return []string{p}
		}
	}
	return nil
}

// secretIn says why p cannot be shown, for a home.
func secretIn(p, home string) string {
	if subpath.Within(p, home) {
		return "it has the whole home directory " + home
	}
	for _, s := range secrets {
		if full := path.Join(home, s); overlap(p, full) {
			return "it has keys, credentials or private data: " + full
		}
	}
	return ""
}

// overlap reports whether one of the paths is the other or in it. Case does not
// count: on some file systems it does not.
func overlap(a, b string) bool {
	return subpath.Touch(strings.ToLower(a), strings.ToLower(b))
}
