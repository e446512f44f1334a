// Without the option `contact_forces`.
TBS_FUNCTION f32 contact_effort(World &) { return 0.0f; }

TBS_FUNCTION void show_contacts(World &, f32 (&)[27]) {}
