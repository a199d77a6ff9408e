use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

/// Formats a table: columns two spaces apart, no rules, no spaces at line ends. `right_aligned` has indexes of columns.
#[must_use]
pub fn table(
    header: &[&str],
    right_aligned: &[usize],
    rows: impl IntoIterator<Item = Vec<String>>,
) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(header.to_vec());
    for row in rows {
        table.add_row(row);
    }
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if right_aligned.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = String::new();
    for line in table.lines() {
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Row of cells, each with the title of its column. A cell may have several lines.
pub type TitledRow = Vec<(&'static str, String)>;

/// Formats a [`table`] with the titles of the first row as header; empty if there is no row.
#[must_use]
pub fn titled_table(right_aligned: &[&str], rows: impl IntoIterator<Item = TitledRow>) -> String {
    let mut rows = rows.into_iter().peekable();
    let Some(first) = rows.peek() else { return String::new() };
    let header: Vec<_> = first.iter().map(|(title, _)| *title).collect();
    let is_right = |index: &usize| right_aligned.contains(&header[*index]);
    let right: Vec<_> = (0..header.len()).filter(is_right).collect();
    let cells = |row: TitledRow| row.into_iter().map(|(_, cell)| cell).collect();
    table(&header, &right, rows.map(cells))
}
