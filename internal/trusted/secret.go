package trusted

import (
	"path"
	"slices"
	"strings"
	"sync"

	"palyra/internal/subpath"
)

// secretNames are files and directories in which people and programs keep keys, passwords and tokens, at any depth
// of any directory; what lies below one counts as well. It is no complete list, and nothing is safe because it is
// not on it: it only tells what a person should look at twice before an agent reads it.
var secretNames = sync.OnceValue(func() [][]string {
	return split(
		".ssh", ".gnupg", ".password-store", ".netrc", "_netrc", ".authinfo", ".authinfo.gpg", ".git-credentials", ".config/git/credentials",
		".env", ".env.*", "*.env", ".envrc", ".htpasswd", "*.pem", "*.key", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk", "*.ovpn",
		"id_rsa", "id_dsa", "id_ecdsa", "id_ed25519", "*_rsa", "*_ecdsa", "*_ed25519", "ssh_host_*_key",
		".aws", ".azure", ".kube", ".config/gcloud", ".boto", ".s3cfg", ".oci", ".config/doctl", ".config/hcloud", ".fly", ".databrickscfg",
		".docker/config.json", ".config/containers/auth.json", ".npmrc", ".yarnrc.yml", ".pypirc", ".gem/credentials", ".cargo/credentials*",
		".m2/settings*.xml",
		".gradle/gradle.properties", ".nuget", ".config/gh", ".config/glab-cli", ".config/hub", ".terraform.d", "*.tfstate", "*.tfvars",
		".vault-token", ".pulumi",
		".pgpass", ".my.cnf", ".mylogin.cnf", ".mongorc.js", ".rediscli_auth", ".config/rclone", ".config/sops", ".age", ".config/op",
		".1password",
		".claude.json", ".claude/.credentials.json", ".codex/auth.json", ".gemini", ".config/github-copilot", ".local/share/opencode/auth.json",
		".mozilla", ".config/google-chrome*", ".config/chromium*", ".config/BraveSoftware", ".config/microsoft-edge*", ".thunderbird",
		"cookies.sqlite", "Login Data", "key4.db", "logins.json",
		".local/share/keyrings", ".kde/share/apps/kwallet", ".local/share/kwalletd", "Library/Keychains", "Library/Cookies", ".pki",
		"*_history", ".lesshst", ".viminfo", ".palyra", "credentials", "credentials.*", "secrets", "secrets.*", "secret.*",
	)
})

// secretPlaces are whole paths: of the system, and of the kernel's view of programs,
// whose environments hold secrets.
var secretPlaces = []string{
	"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private",
	"/etc/pki/tls/private",
	"/etc/ipsec.secrets", "/etc/ppp", "/etc/wireguard", "/etc/openvpn", "/etc/NetworkManager/system-connections", "/etc/krb5.keytab",
	"/etc/kubernetes",
	"/etc/letsencrypt", "/etc/rancher", "/etc/docker/key.json", "/etc/security/opasswd",
	"/proc", "/sys", "/dev", "/run", "/var/run", "/var/lib/kubelet", "/var/lib/docker", "/var/lib/containerd", "/var/lib/private",
	"/var/spool", "/var/mail", "/var/backups",
	"/var/db/dslocal", "/private/etc/master.passwd", "/private/var/db/dslocal",
}

func split(names ...string) (out [][]string) {
	for _, n := range names {
		out = append(out, strings.Split(string(fold(n)), "/"))
	}
	return out
}

// fold is Fold for each part of a path.
func fold(p string) string {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		parts[i] = string(Fold(nil, part))
	}
	return strings.Join(parts, "/")
}

// Secret reports whether a path is, or lies in, a known place of secrets.
func Secret(p string) bool {
	p = fold(path.Clean(p))
	for _, place := range secretPlaces {
		place = fold(place)
		if subpath.Within(place, p) {
			return true
		}
	}
	parts := strings.Split(p, "/")
	for i := range parts {
		if slices.ContainsFunc(secretNames(), func(name []string) bool { return begins(parts[i:], name) }) {
			return true
		}
	}
	return false
}

// begins reports whether the parts of a path begin with a name.
func begins(parts, name []string) bool {
	if len(parts) < len(name) {
		return false
	}
	for i, pattern := range name {
		if ok, err := path.Match(pattern, parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// Gathers reports whether a directory is one of those in which others' places of
// secrets commonly lie: whoever looks through all of it looks through them.
func Gathers(dir string) bool {
	parts := strings.Split(strings.Trim(path.Clean(dir), "/"), "/")
	switch {
	case len(parts) == 1: // the root and what is at its top, root's home among them
		return true
	case len(parts) == 2:
		return slices.Contains([]string{"home", "Users", "var", "etc"}, parts[0]) || dir == "/usr/local"
	}
	return false
}
