/* Measures a text. The arguments come as one JSON object, {"text":"…"}, on stdin: Palyra has checked them against the tool's
   schema. The result is one JSON object on stdout. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 2 << 20 };

static char input[MOST + 1];
static unsigned char text[MOST];
static size_t size;

static void fail(const char *why) {
	fprintf(stderr, "text-stat: %s\n", why); /* the log of the call */
	exit(1);
}

static void add(unsigned long c) {
	if (size + 4 > MOST) {
		fail("the text is too long");
	}
	if (c < 0x80) {
		text[size++] = c;
	} else if (c < 0x800) {
		text[size++] = 0xc0 | c >> 6;
		text[size++] = 0x80 | (c & 0x3f);
	} else if (c < 0x10000) {
		text[size++] = 0xe0 | c >> 12;
		text[size++] = 0x80 | (c >> 6 & 0x3f);
		text[size++] = 0x80 | (c & 0x3f);
	} else {
		text[size++] = 0xf0 | c >> 18;
		text[size++] = 0x80 | (c >> 12 & 0x3f);
		text[size++] = 0x80 | (c >> 6 & 0x3f);
		text[size++] = 0x80 | (c & 0x3f);
	}
}

/* hex reads the four digits of an escape. */
static unsigned long hex(const char *p) {
	char digits[5] = {0}, *end;
	memcpy(digits, p, strnlen(p, 4));
	unsigned long c = strtoul(digits, &end, 16);
	if (end != digits + 4) {
		fail("an escape cannot be read");
	}
	return c;
}

/* unescape reads a JSON string from behind its first quote. */
static void unescape(const char *p) {
	static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
	for (; *p != '"'; p++) {
		if (*p == 0) {
			fail("the string does not end");
		}
		if (*p != '\\') {
			if (size == MOST) {
				fail("the text is too long");
			}
			text[size++] = *p;
			continue;
		}
		const char *known = *++p ? strchr(from, *p) : NULL;
		if (known) {
			add(to[known - from]);
			continue;
		}
		if (*p != 'u') {
			fail("an escape cannot be read");
		}
		unsigned long c = hex(p + 1);
		p += 4;
		if (c >= 0xd800 && c < 0xdc00 && p[1] == '\\' && p[2] == 'u') {
			c = 0x10000 + ((c - 0xd800) << 10) + (hex(p + 3) - 0xdc00);
			p += 6;
		}
		add(c);
	}
}

int main(void) {
	size_t n = fread(input, 1, MOST, stdin);
	if (ferror(stdin) || !feof(stdin)) {
		fail("the arguments cannot be read");
	}
	input[n] = 0;
	const char *member = strstr(input, "\"text\"");
	const char *begin = member ? strchr(member + strlen("\"text\""), '"') : NULL;
	if (!begin) {
		fail("there is no text");
	}
	unescape(begin + 1);

	size_t characters = 0, words = 0, lines = 0, seen[256] = {0};
	int inside = 0;
	for (size_t i = 0; i < size; i++) {
		unsigned char c = text[i];
		int space = c == ' ' || (c >= '\t' && c <= '\r');
		seen[c]++;
		characters += (c & 0xc0) != 0x80;
		words += !space && !inside;
		inside = !space;
		lines += c == '\n';
	}
	lines += size > 0 && text[size - 1] != '\n';
	double entropy = 0;
	for (int c = 0; c < 256; c++) {
		if (seen[c]) {
			double share = (double)seen[c] / size;
			entropy -= share * log2(share);
		}
	}
	printf("{\"bytes\":%zu,\"characters\":%zu,\"words\":%zu,\"lines\":%zu,\"entropy\":%.3f}\n", size, characters, words, lines, entropy);
	return 0;
}
