// SPDX-License-Identifier: GPL-2.0
/*
 * The syntax of filters and actions.  Functions of octets only.
 *
 *	slot    = [ "/" expr "/" ] [ "{" actions "}" ]
 *	expr    = and { "||" and }
 *	and     = not { "&&" not }
 *	not     = "!" not | sum [ comparison sum ]
 *	sum     = unary { operator unary }
 *	unary   = "-" unary | "(" expr ")" | number | string | name
 *	actions = action { "," action } [ "by" name { "," name } ]
 *	action  = ( "count" | "record" ) "(" ")" |
 *		  ( "sum" | "min" | "max" | "avg" | "hist" ) "(" expr ")"
 *
 * The kernel does not evaluate them: it keeps the text, and tells a mistake when
 * the rule is made rather than in every process.  What depends on a marker's
 * fields is the library's to find out.
 */
#include <linux/bits.h>
#include <linux/ctype.h>
#include <linux/kernel.h>
#include <linux/overflow.h>
#include <linux/string.h>
#include <linux/time64.h>
#include "marker.h"

#define MAX_NESTING	16
#define MAX_ACTIONS	4
#define MAX_KEYS	4

enum token {
	T_END,
	T_VALUE,	/* a number, string or name */
	T_NOT,
	T_MINUS,
	T_ARITH,
	T_COMPARE,
	T_LOGIC,
	T_OPEN,
	T_CLOSE,
	T_OTHER,	/* a delimiter: '/', '{', '}' or ',' */
	T_COUNT,
};

/**
 * struct syntax - a text being read
 * @text: not terminated
 * @len: its octets
 * @pos: behind the token
 * @token: what was read last
 * @start: where it starts
 * @why: what is wrong, if anything is
 * @err_pos: and where
 */
struct syntax {
	const char	*text;
	size_t		len;
	size_t		pos;
	enum token	token;
	size_t		start;
	const char	*why;
	size_t		err_pos;
};

static bool fail(struct syntax *s, size_t pos, const char *why)
{
	s->why = why;
	s->err_pos = pos;
	return false;
}

/* ---- Tokens --------------------------------------------------------------------- */

static char char_at(const struct syntax *s, size_t pos)
{
	return pos < s->len ? s->text[pos] : '\0';
}

static bool is_word_char(char c)
{
	return isascii(c) && (isalnum(c) || c == '_');
}

static bool is_delimiter(char c)
{
	return c && strchr("/{},", c);
}

static size_t word_end(const struct syntax *s, size_t pos)
{
	while (is_word_char(char_at(s, pos)))
		pos++;
	return pos;
}

/* Digits, and '_' between them, from *@pos up to @end. */
static bool read_digits(struct syntax *s, size_t *pos, size_t end,
			unsigned int base, u64 *value)
{
	for (; *pos < end; (*pos)++) {
		char c = s->text[*pos];

		if (c == '_')
			continue;
		if (base == 16 ? !isxdigit(c) : !isdigit(c))
			break;
		if (check_mul_overflow(*value, (u64)base, value) ||
		    check_add_overflow(*value, (u64)hex_to_bin(c), value))
			return fail(s, s->start, "the number is too large");
	}
	return true;
}

static u64 unit_factor(const char *unit, size_t len)
{
	static const struct {
		const char	*name;
		u64		factor;
	} units[] = {
		{ "", 1 }, { "ns", 1 }, { "us", NSEC_PER_USEC },
		{ "ms", NSEC_PER_MSEC }, { "s", NSEC_PER_SEC },
		{ "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(units); i++)
		if (strlen(units[i].name) == len &&
		    !memcmp(units[i].name, unit, len))
			return units[i].factor;
	return 0;
}

static bool read_number(struct syntax *s)
{
	static const char bad[] =
		"not a number; units are ns us ms s K M G, on decimal ones";
	size_t pos = s->start, end = word_end(s, pos);
	bool fraction = false;
	u64 value = 0, factor;

	s->pos = end;
	if (char_at(s, pos) == '0' && char_at(s, pos + 1) == 'x') {
		for (pos += 2; pos < end && s->text[pos] == '_'; pos++)
			;
		if (pos == end)
			return fail(s, s->start, bad);
		if (!read_digits(s, &pos, end, 16, &value))
			return false;
		return pos == end || fail(s, s->start, bad);
	}
	if (!read_digits(s, &pos, end, 10, &value))
		return false;
	if (pos == end && char_at(s, end) == '.' &&
	    isdigit(char_at(s, end + 1))) {
		fraction = true;
		pos = end + 1;
		end = word_end(s, pos);
		s->pos = end;
		if (!read_digits(s, &pos, end, 10, &value))
			return false;
	}
	factor = unit_factor(s->text + pos, end - pos);
	if (!factor)
		return fail(s, s->start, bad);
	if (!fraction && check_mul_overflow(value, factor, &value))
		return fail(s, s->start, "the number is too large");
	return true;
}

static bool read_string(struct syntax *s)
{
	char quote = s->text[s->start], c;

	for (s->pos = s->start + 1; s->pos < s->len; s->pos++) {
		c = s->text[s->pos];
		if (c == quote) {
			s->pos++;
			return true;
		}
		if (isascii(c) && iscntrl(c))
			return fail(s, s->pos, "a control character in a string");
	}
	return fail(s, s->start, "a quote without its end");
}

static bool read_mark(struct syntax *s)
{
	/* The longer ones first. */
	static const struct {
		char		text[3];
		enum token	token;
	} marks[] = {
		{ "||", T_LOGIC }, { "&&", T_LOGIC }, { "==", T_COMPARE },
		{ "!=", T_COMPARE }, { "!~", T_COMPARE }, { "<<", T_ARITH },
		{ ">>", T_ARITH }, { "<=", T_COMPARE }, { ">=", T_COMPARE },
		{ "<", T_COMPARE }, { ">", T_COMPARE }, { "~", T_COMPARE },
		{ "+", T_ARITH }, { "|", T_ARITH }, { "*", T_ARITH },
		{ "&", T_ARITH }, { "-", T_MINUS }, { "!", T_NOT },
		{ "(", T_OPEN }, { ")", T_CLOSE },
	};
	size_t i, len;

	for (i = 0; i < ARRAY_SIZE(marks); i++) {
		len = strlen(marks[i].text);
		if (s->len - s->start < len ||
		    memcmp(s->text + s->start, marks[i].text, len))
			continue;
		s->token = marks[i].token;
		s->pos = s->start + len;
		return true;
	}
	return fail(s, s->start, s->text[s->start] == '=' ?
		    "'=' compares nothing, '==' does" :
		    "a character that cannot be here");
}

/* Reads the next token. */
static bool next(struct syntax *s)
{
	char c;

	while (s->pos < s->len && isascii(s->text[s->pos]) &&
	       isspace(s->text[s->pos]))
		s->pos++;
	s->start = s->pos;
	if (s->pos >= s->len) {
		s->token = T_END;
		return true;
	}
	c = s->text[s->pos];
	s->token = T_VALUE;
	if (isdigit(c))
		return read_number(s);
	if (is_word_char(c)) {
		s->pos = word_end(s, s->pos);
		return true;
	}
	if (c == '\'' || c == '"')
		return read_string(s);
	if (is_delimiter(c)) {
		s->token = T_OTHER;
		s->pos++;
		return true;
	}
	return read_mark(s);
}

static bool is_delimited(const struct syntax *s, char c)
{
	return s->token == T_OTHER && s->text[s->start] == c;
}

static bool is_name(const struct syntax *s)
{
	return s->token == T_VALUE && is_word_char(s->text[s->start]) &&
	       !isdigit(s->text[s->start]);
}

static bool is_word(const struct syntax *s, const char *word)
{
	return s->token == T_VALUE && s->pos - s->start == strlen(word) &&
	       !memcmp(s->text + s->start, word, strlen(word));
}

/* ---- Expressions ------------------------------------------------------------------ */

enum state {
	WANT_TRUTH,	/* at the start of "not" */
	WANT_VALUE,	/* at the start of "unary" */
	HAVE_VALUE,	/* behind one */
	NOTHING,	/* no transition */
};

static const u8 transitions[NOTHING][T_COUNT] = {
	[WANT_TRUTH] = {
		[T_END] = NOTHING,		[T_VALUE] = HAVE_VALUE,
		[T_NOT] = WANT_TRUTH,		[T_MINUS] = WANT_VALUE,
		[T_ARITH] = NOTHING,		[T_COMPARE] = NOTHING,
		[T_LOGIC] = NOTHING,		[T_OPEN] = WANT_TRUTH,
		[T_CLOSE] = NOTHING,		[T_OTHER] = NOTHING,
	},
	[WANT_VALUE] = {
		[T_END] = NOTHING,		[T_VALUE] = HAVE_VALUE,
		[T_NOT] = NOTHING,		[T_MINUS] = WANT_VALUE,
		[T_ARITH] = NOTHING,		[T_COMPARE] = NOTHING,
		[T_LOGIC] = NOTHING,		[T_OPEN] = WANT_TRUTH,
		[T_CLOSE] = NOTHING,		[T_OTHER] = NOTHING,
	},
	[HAVE_VALUE] = {
		[T_END] = NOTHING,		[T_VALUE] = NOTHING,
		[T_NOT] = NOTHING,		[T_MINUS] = WANT_VALUE,
		[T_ARITH] = WANT_VALUE,		[T_COMPARE] = WANT_VALUE,
		[T_LOGIC] = WANT_TRUTH,		[T_OPEN] = NOTHING,
		[T_CLOSE] = HAVE_VALUE,		[T_OTHER] = NOTHING,
	},
};

static const char *describe(enum state state, enum token token)
{
	if (state == HAVE_VALUE)
		return token == T_END ? "the '/' or ')' at its end is missing" :
					"an operator is missing";
	if (state == WANT_VALUE && token == T_NOT)
		return "'!' stands before a whole comparison; use parentheses";
	return "a value is missing";
}

/*
 * Reads an expression, from the token that was read last up to the '/' or ')'
 * that ends it.
 */
static bool check_expr(struct syntax *s, bool filter)
{
	enum state state = WANT_TRUTH;
	unsigned int depth = 0;
	u32 compared = 0;	/* a bit for each depth */

	for (;; ) {
		enum state after = transitions[state][s->token];

		if (state == HAVE_VALUE && !depth &&
		    (filter ? is_delimited(s, '/') : s->token == T_CLOSE))
			return true;
		if (after == NOTHING || (s->token == T_CLOSE && !depth))
			return fail(s, s->start, describe(state, s->token));
		switch (s->token) {
		case T_OPEN:
			if (depth == MAX_NESTING)
				return fail(s, s->start, "nested too deeply");
			depth++;
			compared &= ~BIT(depth);
			break;
		case T_CLOSE:
			depth--;
			break;
		case T_LOGIC:
			compared &= ~BIT(depth);
			break;
		case T_COMPARE:
			if (compared & BIT(depth))
				return fail(s, s->start,
					    "comparisons do not chain; use '&&'");
			compared |= BIT(depth);
			break;
		default:
			break;
		}
		state = after;
		if (!next(s))
			return false;
	}
}

/* ---- Actions ------------------------------------------------------------------------ */

static bool check_action(struct syntax *s)
{
	static const char * const plain[] = { "count", "record" };
	static const char * const of_value[] = {
		"sum", "min", "max", "avg", "hist",
	};
	bool known = false, takes = false;
	size_t i;

	for (i = 0; i < ARRAY_SIZE(plain); i++)
		known |= is_word(s, plain[i]);
	for (i = 0; i < ARRAY_SIZE(of_value); i++)
		takes |= is_word(s, of_value[i]);
	if (!known && !takes)
		return fail(s, s->start, "no action; there are count record sum min max avg hist");
	if (!next(s))
		return false;
	if (s->token != T_OPEN)
		return fail(s, s->start, "'(' is missing");
	if (!next(s))
		return false;
	if (takes && !check_expr(s, false))
		return false;
	if (s->token != T_CLOSE)
		return fail(s, s->start, "')' is missing");
	return next(s);
}

static bool check_keys(struct syntax *s)
{
	unsigned int count = 0;

	do {
		/* "by" or a comma. */
		if (!next(s))
			return false;
		if (!is_name(s))
			return fail(s, s->start, "a field's name is missing");
		if (++count > MAX_KEYS)
			return fail(s, s->start, "too many names behind 'by'");
		if (!next(s))
			return false;
	} while (is_delimited(s, ','));
	return true;
}

/* From the '{', which was read last, to what is behind the '}'. */
static bool check_actions(struct syntax *s)
{
	unsigned int count = 0;

	do {
		if (!next(s))
			return false;
		if (++count > MAX_ACTIONS)
			return fail(s, s->start, "too many actions");
		if (!check_action(s))
			return false;
	} while (is_delimited(s, ','));
	if (is_word(s, "by") && !check_keys(s))
		return false;
	if (!is_delimited(s, '}'))
		return fail(s, s->start, "'}' is missing");
	return next(s);
}

static bool check_slot(struct syntax *s)
{
	if (!next(s))
		return false;
	if (is_delimited(s, '/')) {
		if (!next(s) || !check_expr(s, true) || !next(s))
			return false;
	}
	if (is_delimited(s, '{') && !check_actions(s))
		return false;
	if (s->token != T_END)
		return fail(s, s->start, "something stands behind the end");
	return true;
}

/**
 * bootmark_slot_check - is a text a filter, actions, or both?
 * @text: starts with '/' or '{', not terminated
 * @len: its octets
 * @pos: takes the offset of what is wrong
 *
 * Return: NULL, or what is wrong.
 */
const char *bootmark_slot_check(const char *text, size_t len, size_t *pos)
{
	struct syntax s = { .text = text, .len = len };

	check_slot(&s);
	*pos = s.err_pos;
	return s.why;
}
