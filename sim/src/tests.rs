mod plans;
mod scenarios;
mod schedules;
