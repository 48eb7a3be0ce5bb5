package command

import (
	"slices"
	"strings"
)

// fetcher is a program, or a subcommand of git, that connects to the places that its operands name.
type fetcher struct {
	flags  string // options without a value; letters stand alone or in clusters
	values string // options whose value is the rest of the cluster or the next word
	first  bool   // only the first operand is a place
}

// fetchers are the programs whose options are known well enough to tell an operand from
// the value of an option. Others, such as grep, may have the same words and go nowhere.
var fetchers = map[string]fetcher{
	"curl": {
		flags: "-s -S -L -f -k -v -i -I -g -G -4 -6 -N -# -j -l -n -q -O -J -R -a -0 -1 -2 -3 --silent --show-error --location " +
			"--fail --fail-with-body --insecure --verbose --include --head --globoff --get --ipv4 --ipv6 --no-buffer --progress-bar " +
			"--no-progress-meter --remote-name --remote-name-all --remote-header-name --remote-time --compressed --create-dirs " +
			"--retry-connrefused --http1.0 --http1.1 --http2 --tlsv1 --tlsv1.2 --tlsv1.3 --ssl-reqd --netrc --disable --path-as-is --raw",
		values: "-o -H -d -X -A -e -b -c -u -m -F -T -w -x -r -y -Y -z -C -D -E -K -P -Q -t -U --output --output-dir --header --data " +
			"--data-raw --data-binary --data-ascii --data-urlencode --json --request --user-agent --referer --cookie --cookie-jar --user " +
			"--max-time --connect-timeout --form --form-string --upload-file --write-out --proxy --range --retry --retry-delay " +
			"--retry-max-time --max-redirs --max-filesize --limit-rate --continue-at --dump-header --cert --key --cacert --capath " +
			"--config --resolve --interface --oauth2-bearer --time-cond --stderr --trace --trace-ascii",
	},
	"wget": {
		flags: "-q -v -c -N -S -r -p -k -m -x -E -K -H -L -4 -6 -F -b -d --quiet --verbose --no-verbose --continue --timestamping " +
			"--server-response --recursive --page-requisites --convert-links --mirror --spider --no-check-certificate --https-only " +
			"--content-disposition --no-clobber --no-parent --no-directories --show-progress --inet4-only --inet6-only --span-hosts",
		values: "-O -o -a -e -i -P -T -t -w -Q -U -A -R -D -I -X -l -B -n --output-document --output-file --append-output --execute " +
			"--input-file --base --directory-prefix --timeout --tries --wait --quota --user-agent --referer --header --post-data " +
			"--post-file --body-data --body-file --method --user --password --level --accept --reject --limit-rate",
	},
	"git clone": {
		flags: "-q -v -n -l -s -4 -6 --quiet --verbose --progress --no-checkout --bare --mirror --single-branch --no-single-branch " +
			"--no-tags --shallow-submodules --recurse-submodules --recursive --local --no-hardlinks --shared --sparse --dissociate",
		values: "-b -o -c -j -u --branch --origin --config --jobs --upload-pack --depth --filter --reference --reference-if-able " +
			"--template --shallow-since --shallow-exclude --separate-git-dir --server-option --bundle-uri --revision",
		first: true,
	},
	"git fetch": {
		flags: "-q -v -a -f -k -n -p -P -t -u -4 -6 --quiet --verbose --progress --append --force --keep --no-tags --prune " +
			"--prune-tags --tags --update-head-ok --dry-run --unshallow --recurse-submodules --no-recurse-submodules --atomic",
		values: "-j -o --jobs --depth --deepen --shallow-since --shallow-exclude --filter --refmap --server-option --upload-pack",
		first:  true,
	},
	"git pull": {
		flags: "-q -v -n -f -k -p -t -4 -6 --quiet --verbose --progress --rebase --no-rebase --ff --ff-only --no-ff --squash " +
			"--no-edit --no-commit --no-verify --autostash --no-autostash --stat --no-stat --prune --tags --no-tags --force --unshallow",
		values: "-s -X -j -o --strategy --strategy-option --jobs --depth --deepen --shallow-since --shallow-exclude --upload-pack",
		first:  true,
	},
	"git push": {
		flags: "-q -v -n -f -d -u -4 -6 --quiet --verbose --progress --dry-run --force --force-with-lease --delete --set-upstream " +
			"--all --branches --mirror --tags --follow-tags --atomic --prune --no-verify --thin --no-thin --porcelain",
		values: "-o --push-option --receive-pack --exec --repo",
		first:  true,
	},
	"git ls-remote": {
		flags:  "-h -b -t -q --heads --branches --tags --refs --quiet --exit-code --symref",
		values: "-o --server-option --upload-pack --exec --sort",
		first:  true,
	},
	"git submodule add": {
		flags:  "-f -q --force --quiet --progress",
		values: "-b --branch --name --reference --depth",
		first:  true,
	},
	"git": {
		flags:  "-p -P --paginate --no-pager --bare --no-replace-objects --no-optional-locks --literal-pathspecs",
		values: "-C -c --git-dir --work-tree --namespace --config-env",
	},
}

// repositories are the words that name a place which a program certainly connects to.
func repositories(name string, args []word) []word {
	if name == "git" {
		name, args = gitCommand(args)
	}
	f, ok := fetchers[name]
	if !ok || name == "git" {
		return nil
	}
	ops, ok := f.operands(args, false)
	if !ok {
		return nil
	}
	if f.first {
		ops = ops[:min(len(ops), 1)]
	}
	return ops
}

// gitCommand is the subcommand, by its whole name, and the words after it.
func gitCommand(args []word) (name string, rest []word) {
	rest, ok := fetchers["git"].operands(args, true)
	if !ok || len(rest) == 0 {
		return "", nil
	}
	name, rest = "git "+rest[0].text, rest[1:]
	if name == "git submodule" && len(rest) > 0 {
		name, rest = name+" "+rest[0].text, rest[1:]
	}
	return name, rest
}

// operands are the words that are neither options nor their values, and those of curl's --url. With early the
// first of them ends the options. It is not ok where a word may be either: one that a shell makes, or an
// option that is not known.
func (f fetcher) operands(args []word, early bool) (ops []word, ok bool) {
	if slices.ContainsFunc(args, func(w word) bool { return !w.fixed() }) {
		return nil, false
	}
	for len(args) > 0 {
		w := args[0]
		args = args[1:]
		switch {
		case w.text == "--":
			return append(ops, args...), true
		case !w.dashed() && early:
			return append(append(ops, w), args...), true
		case !w.dashed():
			ops = append(ops, w)
		case w.text == "--url" && len(args) > 0:
			ops, args = append(ops, args[0]), args[1:]
		default:
			taken, known := f.takes(w.text)
			if !known || taken > len(args) {
				return nil, false
			}
			args = args[taken:]
		}
	}
	return ops, true
}

// takes is how many words after an option are its value.
func (f fetcher) takes(option string) (n int, known bool) {
	flags, values := strings.Fields(f.flags), strings.Fields(f.values)
	if strings.HasPrefix(option, "--") {
		if strings.Contains(option, "=") { // an option with = has its value already
			return 0, true
		}
		if slices.Contains(values, option) {
			return 1, true
		}
		return 0, slices.Contains(flags, option)
	}
	for i := 1; i < len(option); i++ {
		letter := "-" + option[i:i+1]
		switch {
		case slices.Contains(values, letter) && i == len(option)-1:
			return 1, true
		case slices.Contains(values, letter):
			return 0, true
		case !slices.Contains(flags, letter):
			return 0, false
		}
	}
	return 0, true
}
