// SPDX-License-Identifier: GPL-2.0
/*
 * One rule: its parts, which markers it means and in which processes.
 */
#include <linux/glob.h>
#include <linux/kernel.h>
#include <linux/pid.h>
#include <linux/rcupdate.h>
#include <linux/sched.h>
#include <linux/sched/coredump.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/string.h>
#include "marker.h"

/* Appends a string to what is behind the rule's text. */
static const char *put_string(char **room, const char *text, size_t len)
{
	char *string = *room;

	memcpy(string, text, len);
	string[len] = '\0';
	*room += len + 1;
	return string;
}

/**
 * bootmark_rule_alloc - a rule from its parts
 * @text: what was taken apart
 * @parts: which is well-formed
 * @only_pid: process that the rule is for although the text does not say so, or 0
 *
 * Says it in the text too, so that every rule can be told from its text.  The
 * caller looks for the process, takes the slot, and sets what else it knows.
 *
 * Return: the rule, or NULL without memory.
 */
struct bootmark_rule *bootmark_rule_alloc(const char *text,
					  const struct bootmark_rule_parts *parts,
					  u32 only_pid)
{
	size_t front = parts->patterns_end - parts->text, scope_len;
	struct bootmark_rule *rule;
	char scope[24] = "", *room;

	if (only_pid)
		snprintf(scope, sizeof(scope), "@pid=%u", only_pid);
	scope_len = strlen(scope);
	rule = kzalloc(struct_size(rule, text, parts->text_len + scope_len +
				   parts->provider_len + 1 +
				   max_t(size_t, parts->name_len, 1) + 1 +
				   parts->exe_len + 1),
		       GFP_KERNEL_ACCOUNT);
	if (!rule)
		return NULL;
	INIT_LIST_HEAD(&rule->scoped);
	rule->text_len = parts->text_len + scope_len;
	memcpy(rule->text, text + parts->text, front);
	memcpy(rule->text + front, scope, scope_len);
	memcpy(rule->text + front + scope_len, text + parts->patterns_end,
	       parts->text_len - front);

	room = rule->text + rule->text_len;
	rule->provider = put_string(&room, text + parts->provider,
				    parts->provider_len);
	rule->name = parts->name_len ?
		     put_string(&room, text + parts->name, parts->name_len) :
		     put_string(&room, "*", 1);
	rule->exe = put_string(&room, text + parts->exe, parts->exe_len);
	rule->scopes = (parts->scopes & ~BOOTMARK_SCOPE_MODE) |
		       (only_pid ? BOOTMARK_SCOPE_PID : 0);
	rule->overwrite = parts->overwrite;
	rule->pid_nr = only_pid ?: parts->pid;
	rule->uid = make_kuid(&init_user_ns, parts->uid);
	rule->level = parts->scopes & BOOTMARK_SCOPE_LEVEL ?
		      parts->level : BOOTMARK_LEVEL_MAX;
	if (parts->disable)
		rule->flags |= MARKER_RULE_DISABLE;
	if (rule->scopes & BOOTMARK_SCOPE_PROCESS)
		rule->flags |= MARKER_RULE_SCOPED;
	return rule;
}

/**
 * bootmark_rule_free - free a rule that is in no list
 * @rule: the rule, or NULL
 */
void bootmark_rule_free(struct bootmark_rule *rule)
{
	if (!rule)
		return;
	put_pid(rule->pid);
	kfree(rule);
}

/**
 * bootmark_rule_find_process - take hold of the process that a rule names
 * @rule: the rule
 * @only: the process, when it is known; NULL to go by the number
 *
 * From here on the rule is for the process, not for its number.
 *
 * Return: 0, or -ESRCH when there is none.
 */
int bootmark_rule_find_process(struct bootmark_rule *rule, struct pid *only)
{
	struct pid *pid;

	/* PID 1 comes after the command line, and goes last. */
	if (!(rule->scopes & BOOTMARK_SCOPE_PID) || rule->pid_nr == 1)
		return 0;
	rcu_read_lock();
	pid = only ?: find_pid_ns(rule->pid_nr, &init_pid_ns);
	if (pid && pid_task(pid, PIDTYPE_TGID))
		rule->pid = get_pid(pid);
	rcu_read_unlock();
	return rule->pid ? 0 : -ESRCH;
}

/* Under RCU: its first thread, which may have ended before the others. */
static struct task_struct *rule_process(const struct bootmark_rule *rule)
{
	if (rule->pid)
		return pid_task(rule->pid, PIDTYPE_TGID);
	return find_task_by_pid_ns(rule->pid_nr, &init_pid_ns);
}

/**
 * bootmark_rule_is_over - is it for a process that is gone, and to go with it?
 * @rule: the rule
 *
 * Return: true when it is.
 */
bool bootmark_rule_is_over(const struct bootmark_rule *rule)
{
	bool over;

	if (!(rule->flags & MARKER_RULE_PROCESS))
		return false;
	rcu_read_lock();
	over = !rule_process(rule);
	rcu_read_unlock();
	return over;
}

/**
 * bootmark_rule_is_like - does one rule replace the other?
 * @rule: a rule
 * @other: another
 *
 * Return: true when patterns and scopes are the same, and neither would be
 * taken from the privileged by others.
 */
bool bootmark_rule_is_like(const struct bootmark_rule *rule,
			   const struct bootmark_rule *other)
{
	return rule->unprivileged == other->unprivileged &&
	       rule->scopes == other->scopes && rule->level == other->level &&
	       rule->pid_nr == other->pid_nr && uid_eq(rule->uid, other->uid) &&
	       !strcmp(rule->provider, other->provider) &&
	       !strcmp(rule->name, other->name) && !strcmp(rule->exe, other->exe);
}

/**
 * bootmark_rule_matches - does a rule mean a marker, in some process at least?
 * @rule: the rule
 * @desc: the marker's descriptor
 *
 * Return: true when it does.
 */
bool bootmark_rule_matches(const struct bootmark_rule *rule,
			   const struct bootmark_desc *desc)
{
	return desc->level <= rule->level &&
	       glob_match(rule->provider, desc->provider) &&
	       glob_match(rule->name, desc->name);
}

/**
 * bootmark_rule_names - does a rule name a process of this memory by number?
 * @rule: the rule
 * @mm: the memory
 *
 * A process that shares the memory, as a child of vfork() does, counts as the
 * one that is named.
 *
 * Return: true when it does.
 */
bool bootmark_rule_names(const struct bootmark_rule *rule,
			 const struct mm_struct *mm)
{
	struct task_struct *process, *thread;
	bool named = false;

	if (!(rule->scopes & BOOTMARK_SCOPE_PID))
		return false;
	rcu_read_lock();
	process = rule_process(rule);
	if (process) {
		for_each_thread(process, thread) {
			const struct mm_struct *its = READ_ONCE(thread->mm);

			named = its == mm;
			/* They have one memory as long as they live. */
			if (its)
				break;
		}
	}
	rcu_read_unlock();
	return named;
}

/**
 * bootmark_rule_applies - do all scopes that single out processes hold?
 * @rule: the rule
 * @process: the process
 *
 * Return: true when they do.
 */
bool bootmark_rule_applies(const struct bootmark_rule *rule,
			   const struct bootmark_process *process)
{
	/*
	 * As with ptrace(): who may not look into a process since it changed its
	 * rights does not go on changing what it does either.
	 */
	if (rule->unprivileged && get_dumpable(process->mm) != SUID_DUMP_USER)
		return false;
	if (rule->scopes & BOOTMARK_SCOPE_PID &&
	    !bootmark_rule_names(rule, process->mm))
		return false;
	if (rule->scopes & BOOTMARK_SCOPE_UID &&
	    !uid_eq(rule->uid, process->uid))
		return false;
	if (rule->scopes & BOOTMARK_SCOPE_EXE &&
	    !(process->exe && glob_match(rule->exe, process->exe)))
		return false;
	return true;
}
