// SPDX-License-Identifier: GPL-2.0
/*
 * The text of rules.  Functions of octets only.
 *
 * Grammar of a rule:
 *
 *	rule     = ["!"] provider [":" name] { "@" scope } [slot]
 *	provider = glob
 *	name     = glob, "*" when left out
 *	scope    = "pid=" number | "uid=" number | "exe=" string |
 *		   "level=" ( 0 to 7 | "emergency" ... "debug" ) |
 *		   "mode=" ( "discard" | "flight" )
 *	slot     = filter and actions, see syntax.c
 *
 * White space around each part is ignored.  A glob is made of letters, digits,
 * '_', '-', '.', '*', '?' and classes such as [a-c] and [!a-c].
 */
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/threads.h>
#include "marker.h"

/**
 * struct scan - a text and how far it is understood
 * @text: not terminated
 * @len: its octets
 * @pos: of the next octet
 * @parts: what was found
 */
struct scan {
	const char			*text;
	size_t				len;
	size_t				pos;
	struct bootmark_rule_parts	*parts;
};

static bool fail(struct scan *scan, size_t pos, const char *why)
{
	scan->parts->pos = pos;
	scan->parts->why = why;
	return false;
}

static bool at(const struct scan *scan, char c)
{
	return scan->pos < scan->len && scan->text[scan->pos] == c;
}

static void skip_blanks(struct scan *scan)
{
	while (scan->pos < scan->len && isascii(scan->text[scan->pos]) &&
	       isspace(scan->text[scan->pos]))
		scan->pos++;
}

static bool is_glob_char(char c)
{
	return isascii(c) && (isalnum(c) || (c && strchr("_-.", c)));
}

static const char *describe_stray(char c)
{
	switch (c) {
	case '/':
	case '{':
		return "a filter needs a rule in front of it";
	case '@':
		return "a scope needs a rule in front of it";
	case ',':
		return "one rule at a time, without ','";
	case ':':
		return "a second ':'";
	default:
		return "a character that cannot be here";
	}
}

/* Moves the scan, at a '[', behind the class that it starts. */
static bool scan_class(struct scan *scan)
{
	size_t open = scan->pos, i = open + 1;

	if (i < scan->len && scan->text[i] == '!')
		i++;
	if (i < scan->len && scan->text[i] == ']')
		return fail(scan, i, "an empty character class");
	for (; i < scan->len && scan->text[i] != ']'; i++)
		if (!is_glob_char(scan->text[i]))
			return fail(scan, i, "a character that cannot be in a class");
	if (i >= scan->len)
		return fail(scan, open, "'[' without ']'");
	scan->pos = i + 1;
	return true;
}

static bool scan_glob(struct scan *scan)
{
	while (scan->pos < scan->len) {
		char c = scan->text[scan->pos];

		if (c == '[') {
			if (!scan_class(scan))
				return false;
		} else if (is_glob_char(c) || c == '*' || c == '?') {
			scan->pos++;
		} else {
			break;
		}
	}
	return true;
}

static bool scan_number(struct scan *scan, u32 max, u32 *number)
{
	size_t start = scan->pos;
	u64 value = 0;

	while (scan->pos < scan->len && isdigit(scan->text[scan->pos])) {
		value = value * 10 + (scan->text[scan->pos++] - '0');
		if (value > max)
			return fail(scan, start, "the number is too large");
	}
	if (scan->pos == start)
		return fail(scan, start, "a number is missing");
	*number = value;
	return true;
}

static bool scan_word(struct scan *scan, const char *word)
{
	size_t len = strlen(word);

	if (scan->len - scan->pos < len ||
	    memcmp(scan->text + scan->pos, word, len))
		return false;
	if (scan->pos + len < scan->len &&
	    is_glob_char(scan->text[scan->pos + len]))
		return false;
	scan->pos += len;
	return true;
}

static bool scan_level(struct scan *scan, u8 *level)
{
	static const char * const names[BOOTMARK_LEVEL_MAX + 1] = {
		"emergency", "alert", "critical", "error", "warning", "notice",
		"info", "debug",
	};
	size_t start = scan->pos;
	u32 number;
	u8 i;

	for (i = 0; i < ARRAY_SIZE(names); i++) {
		if (scan_word(scan, names[i])) {
			*level = i;
			return true;
		}
	}
	if (scan->pos >= scan->len || !isdigit(scan->text[scan->pos]))
		return fail(scan, start, "a level is 0 to 7 or its name, such as 'warning'");
	if (!scan_number(scan, BOOTMARK_LEVEL_MAX, &number))
		return false;
	*level = number;
	return true;
}

static bool scan_mode(struct scan *scan, bool *overwrite)
{
	size_t start = scan->pos;

	*overwrite = scan_word(scan, "flight");
	if (*overwrite || scan_word(scan, "discard"))
		return true;
	return fail(scan, start, "a mode is 'discard' or 'flight'");
}

/* A path's glob, in quotes. */
static bool scan_exe(struct scan *scan)
{
	size_t open = scan->pos, i;
	char quote;

	if (!at(scan, '\'') && !at(scan, '"'))
		return fail(scan, open, "a path is given in quotes");
	quote = scan->text[open];
	for (i = open + 1; i < scan->len && scan->text[i] != quote; i++)
		if (isascii(scan->text[i]) && iscntrl(scan->text[i]))
			return fail(scan, i, "a control character in a path");
	if (i >= scan->len)
		return fail(scan, open, "a quote without its end");
	if (i == open + 1)
		return fail(scan, i, "the path is empty");
	scan->parts->exe = open + 1;
	scan->parts->exe_len = i - open - 1;
	scan->pos = i + 1;
	return true;
}

/* Moves the scan, behind an '@', behind the scope. */
static bool scan_scope(struct scan *scan)
{
	static const struct {
		const char	*name;
		u32		scope;
	} scopes[] = {
		{ "pid", BOOTMARK_SCOPE_PID },
		{ "uid", BOOTMARK_SCOPE_UID },
		{ "exe", BOOTMARK_SCOPE_EXE },
		{ "level", BOOTMARK_SCOPE_LEVEL },
		{ "mode", BOOTMARK_SCOPE_MODE },
	};
	struct bootmark_rule_parts *parts = scan->parts;
	size_t start, i;

	skip_blanks(scan);
	start = scan->pos;
	for (i = 0; i < ARRAY_SIZE(scopes); i++)
		if (scan_word(scan, scopes[i].name))
			break;
	if (i == ARRAY_SIZE(scopes))
		return fail(scan, start, "a scope is one of pid=, uid=, exe=, level=, mode=");
	if (parts->scopes & scopes[i].scope)
		return fail(scan, start, "this scope is given twice");
	parts->scopes |= scopes[i].scope;
	skip_blanks(scan);
	if (!at(scan, '='))
		return fail(scan, scan->pos, "'=' is missing");
	scan->pos++;
	skip_blanks(scan);
	switch (scopes[i].scope) {
	case BOOTMARK_SCOPE_PID:
		start = scan->pos;
		if (!scan_number(scan, PID_MAX_LIMIT, &parts->pid))
			return false;
		if (!parts->pid)
			return fail(scan, start, "there is no process 0");
		break;
	case BOOTMARK_SCOPE_UID:
		/* (uid_t)-1 is nobody's. */
		if (!scan_number(scan, U32_MAX - 1, &parts->uid))
			return false;
		break;
	case BOOTMARK_SCOPE_EXE:
		if (!scan_exe(scan))
			return false;
		break;
	case BOOTMARK_SCOPE_MODE:
		if (parts->disable)
			return fail(scan, scan->pos, "a rule with '!' has no mode");
		if (!scan_mode(scan, &parts->overwrite))
			return false;
		break;
	default:
		if (!scan_level(scan, &parts->level))
			return false;
		break;
	}
	return true;
}

/* The provider's pattern and, behind a ':', the name's. */
static bool scan_patterns(struct scan *scan)
{
	struct bootmark_rule_parts *parts = scan->parts;

	parts->provider = scan->pos;
	if (!scan_glob(scan))
		return false;
	parts->provider_len = scan->pos - parts->provider;
	parts->patterns_end = scan->pos;
	if (!parts->provider_len)
		return fail(scan, scan->pos, scan->pos < scan->len && !at(scan, ':') ?
			    describe_stray(scan->text[scan->pos]) :
			    "the provider's pattern is missing");
	skip_blanks(scan);
	if (!at(scan, ':'))
		return true;
	scan->pos++;
	skip_blanks(scan);
	parts->name = scan->pos;
	if (!scan_glob(scan))
		return false;
	parts->name_len = scan->pos - parts->name;
	parts->patterns_end = scan->pos;
	if (!parts->name_len)
		return fail(scan, scan->pos, scan->pos < scan->len ?
			    describe_stray(scan->text[scan->pos]) :
			    "the name's pattern is missing");
	skip_blanks(scan);
	return true;
}

/**
 * bootmark_rule_parse - take a rule apart
 * @text: the rule, not terminated
 * @len: its octets
 * @parts: takes the parts, or why and where it is wrong
 *
 * Return: true when it is a rule.
 */
bool bootmark_rule_parse(const char *text, size_t len,
			 struct bootmark_rule_parts *parts)
{
	struct scan scan = { .text = text, .len = len, .parts = parts };

	memset(parts, 0, sizeof(*parts));
	if (len > MARKER_RULE_MAX)
		return fail(&scan, MARKER_RULE_MAX, "it is too long");
	while (scan.len && isascii(text[scan.len - 1]) &&
	       isspace(text[scan.len - 1]))
		scan.len--;

	skip_blanks(&scan);
	/* Of nothing but white space, all of it stands before the mistake. */
	if (scan.pos == scan.len)
		return fail(&scan, len, "the provider's pattern is missing");
	parts->text = scan.pos;
	parts->text_len = scan.len - scan.pos;
	if (at(&scan, '!')) {
		parts->disable = true;
		scan.pos++;
		skip_blanks(&scan);
	}
	if (!scan_patterns(&scan))
		return false;
	while (at(&scan, '@')) {
		scan.pos++;
		if (!scan_scope(&scan))
			return false;
		skip_blanks(&scan);
	}
	if (at(&scan, '/') || at(&scan, '{')) {
		if (parts->disable)
			return fail(&scan, scan.pos,
				    "a rule with '!' has no filter or actions");
		parts->slot = scan.pos;
		parts->slot_len = scan.len - scan.pos;
		parts->why = bootmark_slot_check(text + parts->slot,
						 parts->slot_len, &parts->pos);
		parts->pos += parts->slot;
		return !parts->why;
	}
	if (scan.pos < scan.len)
		return fail(&scan, scan.pos, describe_stray(text[scan.pos]));
	return true;
}

/* Behind the quoted string that starts at @pos; @len when it does not end. */
static size_t skip_string(const char *text, size_t len, size_t pos)
{
	const char *end = memchr(text + pos + 1, text[pos], len - pos - 1);

	return end ? end - text + 1 : len;
}

/**
 * bootmark_rule_first - cut off the first of several rules
 * @text: rules with commas between them, not terminated
 * @len: its octets
 *
 * A comma in quotes or between the braces of actions is the rule's own.  When
 * one of these does not end, the rule ends at the next comma all the same, so
 * that the mistake costs one rule and not those behind it.
 *
 * Return: octets in front of the comma, @len when there is none.
 */
size_t bootmark_rule_first(const char *text, size_t len)
{
	/* The first comma behind a quote or brace that may turn out open. */
	size_t pos = 0, inner = len, brace = len;

	while (pos < len) {
		char c = text[pos];

		if (c == '\'' || c == '"') {
			size_t end = skip_string(text, len, pos);
			const char *comma = memchr(text + pos, ',', len - pos);

			if (end == len && text[len - 1] != c && comma)
				return min_t(size_t, inner, comma - text);
			pos = end;
			continue;
		}
		if (c == '{') {
			/* Braces are not nested: the first one did not end. */
			if (brace < len && inner < len)
				return inner;
			brace = pos;
		}
		if (c == '}') {
			brace = len;
			inner = len;
		}
		if (c == ',' && brace == len)
			return pos;
		if (c == ',' && inner == len)
			inner = pos;
		pos++;
	}
	return inner;
}
