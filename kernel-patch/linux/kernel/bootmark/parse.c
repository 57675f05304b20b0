// SPDX-License-Identifier: GPL-2.0
/*
 * The text of rules.  Functions of octets only.
 *
 * Grammar of a rule:
 *
 *	rule     = ["!"] provider [":" name]
 *	provider = glob
 *	name     = glob, "*" when left out
 *
 * White space around each part is ignored.  A glob is made of letters, digits,
 * '_', '-', '.', '*', '?' and classes such as [a-c] and [!a-c].
 */
#include <linux/ctype.h>
#include <linux/string.h>
#include "marker.h"

static size_t skip_blanks(const char *text, size_t len, size_t pos)
{
	while (pos < len && isascii(text[pos]) && isspace(text[pos]))
		pos++;
	return pos;
}

static bool is_glob_char(char c)
{
	return isascii(c) && (isalnum(c) || (c && strchr("_-.", c)));
}

static bool fail(struct bootmark_rule_parts *parts, size_t pos, const char *why)
{
	parts->pos = pos;
	parts->why = why;
	return false;
}

static const char *describe_stray(char c)
{
	switch (c) {
	case '/':
		return "filters are not supported by this kernel";
	case '{':
		return "aggregations are not supported by this kernel";
	case '@':
		return "scopes are not supported by this kernel";
	case ',':
		return "one rule at a time, without ','";
	case ':':
		return "a second ':'";
	default:
		return "a character that cannot be here";
	}
}

/* Moves @pos, at a '[', behind the class that it starts. */
static bool scan_class(const char *text, size_t len, size_t *pos,
		       struct bootmark_rule_parts *parts)
{
	size_t open = *pos, i = open + 1;

	if (i < len && text[i] == '!')
		i++;
	if (i < len && text[i] == ']')
		return fail(parts, i, "an empty character class");
	for (; i < len && text[i] != ']'; i++)
		if (!is_glob_char(text[i]))
			return fail(parts, i, describe_stray(text[i]));
	if (i >= len)
		return fail(parts, open, "'[' without ']'");
	*pos = i + 1;
	return true;
}

static bool scan_glob(const char *text, size_t len, size_t *pos,
		      struct bootmark_rule_parts *parts)
{
	while (*pos < len) {
		char c = text[*pos];

		if (c == '[') {
			if (!scan_class(text, len, pos, parts))
				return false;
		} else if (is_glob_char(c) || c == '*' || c == '?') {
			(*pos)++;
		} else {
			break;
		}
	}
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
	size_t pos;

	memset(parts, 0, sizeof(*parts));
	if (len > MARKER_RULE_MAX)
		return fail(parts, MARKER_RULE_MAX, "it is too long");

	pos = skip_blanks(text, len, 0);
	parts->text = pos;
	if (pos < len && text[pos] == '!') {
		parts->disable = true;
		pos = skip_blanks(text, len, pos + 1);
	}
	parts->provider = pos;
	if (!scan_glob(text, len, &pos, parts))
		return false;
	parts->provider_len = pos - parts->provider;
	parts->text_len = pos - parts->text;
	if (!parts->provider_len)
		return fail(parts, pos, pos < len && text[pos] != ':' ?
			    describe_stray(text[pos]) :
			    "the provider's pattern is missing");

	pos = skip_blanks(text, len, pos);
	if (pos < len && text[pos] == ':') {
		pos = skip_blanks(text, len, pos + 1);
		parts->name = pos;
		if (!scan_glob(text, len, &pos, parts))
			return false;
		parts->name_len = pos - parts->name;
		parts->text_len = pos - parts->text;
		if (!parts->name_len)
			return fail(parts, pos, pos < len ?
				    describe_stray(text[pos]) :
				    "the name's pattern is missing");
		pos = skip_blanks(text, len, pos);
	}
	if (pos < len)
		return fail(parts, pos, describe_stray(text[pos]));
	return true;
}
