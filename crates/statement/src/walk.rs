//! Walks the tree of a statement.
//!
//! sqlparser compiles its traversal of the whole tree anew for each type of visitor, and a closure is
//! a type of its own: for a hundred visitors, this was most of the code of the SQL crates. Here the
//! visitor is behind a `dyn`, so that there is one traversal for all. Clippy
//! refuses sqlparser's own functions elsewhere.

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, Select, Statement, TableFactor, ValueWithSpan, Visit, VisitMut, Visitor, VisitorMut,
};
use std::ops::ControlFlow;

/// Visits a tree.
#[expect(clippy::disallowed_methods, reason = "the one traversal")]
pub fn walk<T: Visit + ?Sized, V: Visitor>(tree: &T, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = Kept { visitor, stopped: None };
    let _ = tree.visit(&mut Any(&mut kept));
    kept.stopped.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits a tree that may be changed.
#[expect(clippy::disallowed_methods, reason = "the one traversal")]
pub fn walk_mut<T: VisitMut + ?Sized, V: VisitorMut>(tree: &mut T, visitor: &mut V) -> ControlFlow<V::Break> {
    let mut kept = KeptMut { visitor, stopped: None };
    let _ = tree.visit(&mut AnyMut(&mut kept));
    kept.stopped.map_or(ControlFlow::Continue(()), ControlFlow::Break)
}

/// Visits all expressions, outer ones first.
pub fn visit_expressions<T: Visit + ?Sized, E>(tree: &T, each: impl FnMut(&Expr) -> ControlFlow<E>) -> ControlFlow<E> {
    walk(tree, &mut Expressions(each))
}

/// Visits all expressions, inner ones first.
pub fn visit_expressions_mut<T: VisitMut + ?Sized, E>(
    tree: &mut T,
    each: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk_mut(tree, &mut Expressions(each))
}

/// Visits an expression and those in it, inner ones first, except in subqueries.
pub fn visit_outside_subqueries_mut<E>(
    expr: &mut Expr,
    each: impl FnMut(&mut Expr) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk_mut(expr, &mut OutsideSubqueries { each, depth: 0 })
}

/// Visits the names of all relations.
pub fn visit_relations_mut<T: VisitMut + ?Sized, E>(
    tree: &mut T,
    each: impl FnMut(&mut ObjectName) -> ControlFlow<E>,
) -> ControlFlow<E> {
    walk_mut(tree, &mut Relations(each))
}

struct Expressions<F>(F);

impl<E, F: FnMut(&Expr) -> ControlFlow<E>> Visitor for Expressions<F> {
    type Break = E;

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for Expressions<F> {
    type Break = E;

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
        self.0(expr)
    }
}

struct OutsideSubqueries<F> {
    each: F,
    /// The number of enclosing subqueries.
    depth: usize,
}

impl<E, F: FnMut(&mut Expr) -> ControlFlow<E>> VisitorMut for OutsideSubqueries<F> {
    type Break = E;

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<E> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<E> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<E> {
        if self.depth == 0 { (self.each)(expr) } else { ControlFlow::Continue(()) }
    }
}

struct Relations<F>(F);

impl<E, F: FnMut(&mut ObjectName) -> ControlFlow<E>> VisitorMut for Relations<F> {
    type Break = E;

    fn post_visit_relation(&mut self, relation: &mut ObjectName) -> ControlFlow<E> {
        self.0(relation)
    }
}

/// A visitor that keeps what it stopped with.
struct Kept<'a, V: Visitor> {
    visitor: &'a mut V,
    stopped: Option<V::Break>,
}

struct KeptMut<'a, V: VisitorMut> {
    visitor: &'a mut V,
    stopped: Option<V::Break>,
}

struct Any<'a>(&'a mut dyn Visitor<Break = ()>);

struct AnyMut<'a>(&'a mut dyn VisitorMut<Break = ()>);

fn keep<B>(stopped: &mut Option<B>, flow: ControlFlow<B>) -> ControlFlow<()> {
    match flow {
        ControlFlow::Continue(()) => ControlFlow::Continue(()),
        ControlFlow::Break(with) => {
            *stopped = Some(with);
            ControlFlow::Break(())
        }
    }
}

macro_rules! pass_on {
    ($($method:ident: $node:ty),* $(,)?) => {
        impl<V: Visitor> Visitor for Kept<'_, V> {
            type Break = ();

            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                keep(&mut self.stopped, self.visitor.$method(node))
            })*
        }

        impl<V: VisitorMut> VisitorMut for KeptMut<'_, V> {
            type Break = ();

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                keep(&mut self.stopped, self.visitor.$method(node))
            })*
        }

        impl Visitor for Any<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &$node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }

        impl VisitorMut for AnyMut<'_> {
            type Break = ();

            $(fn $method(&mut self, node: &mut $node) -> ControlFlow<()> {
                self.0.$method(node)
            })*
        }
    };
}

pass_on! {
    pre_visit_query: Query,
    post_visit_query: Query,
    pre_visit_select: Select,
    post_visit_select: Select,
    pre_visit_relation: ObjectName,
    post_visit_relation: ObjectName,
    pre_visit_table_factor: TableFactor,
    post_visit_table_factor: TableFactor,
    pre_visit_expr: Expr,
    post_visit_expr: Expr,
    pre_visit_statement: Statement,
    post_visit_statement: Statement,
    pre_visit_value: ValueWithSpan,
    post_visit_value: ValueWithSpan,
}
